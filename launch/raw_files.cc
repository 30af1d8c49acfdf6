#include "launch/raw_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr size_t kBlock = size_t{1} << 24;

int Open(const std::filesystem::path& file, int flags) {
  const int fd = open(file.c_str(), flags | O_CLOEXEC, 0644);
  if (fd < 0) throw RuntimeError(file.string(), ": cannot be opened: ", std::strerror(errno));
  return fd;
}

void Want(bool fine, const std::filesystem::path& file) {
  if (!fine) throw RuntimeError(file.string(), ": cannot be read or written: ", std::strerror(errno));
}

}  // namespace

double SecondsToWrite(const std::filesystem::path& file, uint64_t bytes) {
  const std::vector<char> block(kBlock, 1);
  const Clock::time_point start = Clock::now();
  const int fd = Open(file, O_WRONLY | O_CREAT | O_TRUNC);
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t written = write(fd, block.data(), std::min<uint64_t>(kBlock, bytes - done));
    Want(written > 0, file);
    done += static_cast<uint64_t>(written);
  }
  Want(fsync(fd) == 0, file);
  close(fd);
  return SecondsSince(start);
}

double SecondsToRead(const std::filesystem::path& file) {
  std::vector<char> block(kBlock);
  const Clock::time_point start = Clock::now();
  const int fd = Open(file, O_RDONLY);
  ssize_t got = 0;
  do {
    got = read(fd, block.data(), block.size());
    Want(got >= 0, file);
  } while (got > 0);
  close(fd);
  return SecondsSince(start);
}

double SecondsToCopy(uint64_t bytes) {
  const std::vector<char> source(bytes, 1);
  std::vector<char> target(bytes, 2);
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point start = Clock::now();
    std::memcpy(target.data(), source.data(), bytes);
    best = std::min(best, SecondsSince(start));
  }
  // Reading the result also keeps the copy from being optimised away.
  if (target[bytes / 2] != 1) throw RuntimeError("a copy in memory went wrong");
  return best;
}

void ForgetFile(const std::filesystem::path& file) {
  const int fd = Open(file, O_RDONLY);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

}  // namespace trireme
