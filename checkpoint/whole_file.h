// WholeFile: a file that appears complete under its name, or not at all. Written aside in the same folder,
// fsynced, renamed; an owner that is destroyed before Commit leaves nothing behind.
#pragma once

#include <cstddef>
#include <filesystem>

namespace trireme {

class WholeFile {
 public:
  explicit WholeFile(const std::filesystem::path& path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void Write(const void* data, size_t bytes);
  void Commit();  // the file is on the disk and has its name when this returns

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;
  int fd_ = -1;
};

}  // namespace trireme
