#include "board/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace trireme {
namespace {

OpenedFile OpenFolder(const std::filesystem::path& directory) {
  return OpenedFile(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool IsKind(const std::filesystem::path& directory, const char* name, mode_t kind) {
  const OpenedFile folder = OpenFolder(directory);
  struct stat status = {};
  return folder.is_open() && fstatat(folder.fd(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         (status.st_mode & S_IFMT) == kind;
}

// Asks without taking it: the first byte belongs to the run.
bool IsLocked(const OpenedFile& file) {
  struct flock range = {};
  range.l_type = F_RDLCK;
  range.l_whence = SEEK_SET;
  range.l_len = 1;
  return fcntl(file.fd(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

}  // namespace

OpenedFile::~OpenedFile() {
  if (fd_ >= 0) close(fd_);
}

OpenedFile& OpenedFile::operator=(OpenedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int64_t OpenedFile::bytes() const {
  struct stat status = {};
  return is_open() && fstat(fd_, &status) == 0 ? static_cast<int64_t>(status.st_size) : 0;
}

std::string OpenedFile::Read(int64_t offset, int64_t most_bytes) const {
  std::string text(static_cast<size_t>(std::max<int64_t>(std::min(most_bytes, bytes() - offset), 0)), '\0');
  size_t read = 0;
  while (read < text.size()) {
    const ssize_t count = pread(fd_, text.data() + read, text.size() - read, offset + static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    read += static_cast<size_t>(count);
  }
  text.resize(read);
  return text;
}

OpenedFile OpenRunFile(const std::filesystem::path& directory, const char* name) {
  const OpenedFile folder = OpenFolder(directory);
  if (!folder.is_open()) return {};
  // Without blocking: a FIFO of that name must not hold the board.
  OpenedFile file(openat(folder.fd(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!file.is_open() || fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return file;
}

bool HasRunFile(const std::filesystem::path& directory, const char* name) { return IsKind(directory, name, S_IFREG); }
bool HasRunFolder(const std::filesystem::path& directory, const char* name) { return IsKind(directory, name, S_IFDIR); }

double StartedAt(const std::filesystem::path& directory) {
  for (const char* name : {"run.yaml", "log.jsonl"}) {
    const OpenedFile file = OpenRunFile(directory, name);
    struct stat status = {};
    if (!file.is_open() || fstat(file.fd(), &status) != 0) continue;
    return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  }
  return 0;
}

RunState StateOf(const std::filesystem::path& directory) {
  const OpenedFile lock = OpenRunFile(directory, ".lock");
  if (lock.is_open() && IsLocked(lock)) return RunState::kRunning;
  return HasRunFolder(directory, "final") ? RunState::kDone : RunState::kStopped;
}

const char* NameOf(RunState state) {
  if (state == RunState::kRunning) return "running";
  return state == RunState::kDone ? "done" : "stopped";
}

FileTail ReadTail(const OpenedFile& file, int64_t before, int64_t most_lines, int64_t most_bytes) {
  const int64_t end = before < 0 ? file.bytes() : std::min(before, file.bytes());
  const int64_t from = std::max<int64_t>(end - most_bytes, 0);
  std::string text = file.Read(from, end - from);
  const size_t last = text.rfind('\n');  // what follows is still being written
  text.resize(last == std::string::npos ? 0 : last + 1);
  size_t begin = text.size();
  for (int64_t lines = 0; begin > 0 && lines < most_lines; ++lines) {
    const size_t previous = begin >= 2 ? text.rfind('\n', begin - 2) : std::string::npos;
    if (previous == std::string::npos && from > 0) break;  // the line's beginning was not read
    begin = previous == std::string::npos ? 0 : previous + 1;
  }
  return {.lines = text.substr(begin), .begin = from + static_cast<int64_t>(begin)};
}

}  // namespace trireme
