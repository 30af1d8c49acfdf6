// MappedFile: a file mapped as read-only memory. Pages are read when touched, so opening costs nothing and a
// rank's memory grows only by what it reads. Knows no format.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace trireme {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);  // throws InputError if it cannot be read
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace trireme
