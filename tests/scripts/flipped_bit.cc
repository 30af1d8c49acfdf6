// A preload library: of every large block that pwrite stores, a bit arrives flipped, as from a failing disk.
#include <dlfcn.h>
#include <sys/types.h>

#include <vector>

static ssize_t Damaged(const char* name, int fd, const void* data, size_t bytes, off_t offset) {
  using Write = ssize_t (*)(int, const void*, size_t, off_t);
  const auto real = reinterpret_cast<Write>(dlsym(RTLD_NEXT, name));
  if (offset == 0 || bytes < 4096) return real(fd, data, bytes, offset);  // a file's header
  std::vector<char> copy(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  copy[bytes / 2] = static_cast<char>(copy[bytes / 2] ^ 1);
  return real(fd, copy.data(), bytes, offset);
}

extern "C" ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return Damaged("pwrite", fd, data, bytes, offset);
}

extern "C" ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset) {
  return Damaged("pwrite64", fd, data, bytes, offset);
}
