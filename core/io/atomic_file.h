// AtomicFile: a file that appears under its name atomically. Written to a temporary name in the same
// directory, fsynced, renamed; destroyed before Commit, it leaves nothing behind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme {

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(const void* data, size_t bytes);
  // The file is durable and has its name when this returns. `sync_name` false: the name is not durable yet;
  // for a file that tells another process to take over the directory, which this one must no longer touch.
  void Commit(bool sync_name = true);

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;
  int fd_ = -1;
};

void WriteAtomicFile(const std::filesystem::path& path, const std::string& text, bool sync_name = true);

}  // namespace trireme
