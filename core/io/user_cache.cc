#include "core/io/user_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/base/error.h"

namespace trireme {

std::filesystem::path UserCache(const std::string& kind, const std::string& key) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != 0) return std::filesystem::path(cache) / "trireme" / kind;
  if (home != nullptr && *home != 0) return std::filesystem::path(home) / ".cache" / "trireme" / kind;
  throw InputError("neither HOME nor XDG_CACHE_HOME is set; set ", key, " to a directory for cached data");
}

void MakeUserCache(const std::filesystem::path& cache, const std::string& what, const std::string& key) {
  std::error_code error;
  std::filesystem::create_directories(cache, error);
  if (!error && access(cache.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (!error) return;
  throw InputError(what, " cannot be cached in ", cache.string(), ": ", error.message(), "; set ", key,
                   " to a writable directory");
}

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ < 0 || flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK && on_wait) on_wait();
  flock(fd_, LOCK_EX);
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace trireme
