// AppendedFile: a file that a run writes on until its end, and that must still be there then. A file that was
// removed, or whose directory was moved, takes further bytes without a word: here the next write notices it.
#pragma once

#include <filesystem>
#include <string_view>

namespace trireme {

class AppendedFile {
 public:
  explicit AppendedFile(const std::filesystem::path& path);  // an input error where it cannot be written
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // In the file when this returns.
  void Append(std::string_view text);
  // Throws where the path no longer leads to the file that is written.
  void CheckIsThere() const;

 private:
  const std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace trireme
