// UnpackGuard: limits of a text that is unpacked into memory, so that a small file cannot fill it: how many times the
// file's size it may be, and how long a line of it. Knows no compression.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme {

// Whether the text is read line by line, so that each must be of a plausible length.
enum class UnpackedAs { kWhole, kLines };

class UnpackGuard {
 public:
  UnpackGuard(const std::filesystem::path& path, size_t packed_bytes, UnpackedAs as)
      : path_(path), packed_bytes_(packed_bytes), as_(as) {}
  // To be called as the text grows: after at most kStep bytes.
  void Check(const std::string& text);

  static constexpr size_t kStep = size_t{1} << 26;

 private:
  const std::filesystem::path path_;
  const size_t packed_bytes_;
  const UnpackedAs as_;
  size_t line_begin_ = 0, seen_ = 0;
};

}  // namespace trireme
