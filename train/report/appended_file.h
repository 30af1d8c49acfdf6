// AppendedFile: a file that a run appends to until its end, and that must still exist then. A file that was
// removed, or whose directory was moved, accepts further bytes silently: here the next write notices it.
#pragma once

#include <filesystem>
#include <string_view>

namespace trireme {

class AppendedFile {
 public:
  explicit AppendedFile(const std::filesystem::path& path);  // an input error if it cannot be written
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // Flushed to the file on return.
  void Append(std::string_view text);
  // Throws if the path no longer refers to the open file.
  void CheckIsThere() const;

 private:
  const std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace trireme
