#include "core/io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = OpenInput(path);
  struct stat status{};
  const bool known = fstat(fd, &status) == 0;
  if (known && status.st_size > 0) {
    size_ = static_cast<size_t>(status.st_size);
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) data_ = static_cast<const std::byte*>(mapped);
  }
  const int mapping_error = errno;
  close(fd);
  if (known && (size_ == 0 || data_ != nullptr)) return;
  throw InputError(path.string(), ": cannot be mapped: ", std::strerror(mapping_error));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace trireme
