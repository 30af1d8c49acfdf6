#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

[[noreturn]] void Refuse(const std::filesystem::path& path, const char* what) {
  throw InputError(path.string(), ": ", what, ": ", std::strerror(errno));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) Refuse(path, "cannot be opened");
  struct stat status;
  const bool known = fstat(fd, &status) == 0;
  if (known && S_ISREG(status.st_mode) && status.st_size > 0) {
    size_ = static_cast<size_t>(status.st_size);
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) data_ = static_cast<const std::byte*>(mapped);
  }
  const int mapping_error = errno;
  close(fd);
  errno = mapping_error;
  if (!known || (size_ > 0 && data_ == nullptr)) Refuse(path, "cannot be mapped");
  if (!S_ISREG(status.st_mode)) throw InputError(path.string(), ": is not a regular file");
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

}  // namespace trireme
