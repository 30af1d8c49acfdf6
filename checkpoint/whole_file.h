// WholeFile: a file that appears complete under its name, or not at all. Written aside in the same folder,
// fsynced, renamed; an owner that is destroyed before Commit leaves nothing behind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme {

class WholeFile {
 public:
  explicit WholeFile(const std::filesystem::path& path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void Write(const void* data, size_t bytes);
  // The file is on the disk and has its name when this returns. `sync_name` false: the name is not on the
  // disk yet; for a file that tells another process to take the folder over, which then is no longer this
  // one's to touch.
  void Commit(bool sync_name = true);

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;
  int fd_ = -1;
};

void WriteWholeFile(const std::filesystem::path& path, const std::string& text, bool sync_name = true);

}  // namespace trireme
