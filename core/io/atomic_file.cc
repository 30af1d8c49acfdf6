#include "core/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

[[noreturn]] void Fail(const std::filesystem::path& path, const char* what) {
  throw RuntimeError(path.string(), ": ", what, ": ", std::strerror(errno));
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(path), aside_(path.string() + ".part-" + std::to_string(getpid())) {
  fd_ = open(aside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) Fail(aside_, "cannot be created");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(aside_.c_str());
}

void AtomicFile::Write(const void* data, size_t bytes) {
  constexpr size_t kLargestWrite = size_t{1} << 30;  // write() itself is limited to just below 2 GiB
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd_, next, std::min(bytes, kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail(aside_, "cannot be written");
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::Commit(bool sync_name) {
  if (fsync(fd_) != 0) Fail(aside_, "cannot be synced");
  if (close(std::exchange(fd_, -1)) != 0) Fail(aside_, "cannot be closed");
  if (rename(aside_.c_str(), path_.c_str()) != 0) Fail(path_, "cannot be renamed to this name");
  if (sync_name) SyncFolder(FolderOf(path_));
}

void WriteAtomicFile(const std::filesystem::path& path, const std::string& text, bool sync_name) {
  AtomicFile file(path);
  file.Write(text.data(), text.size());
  file.Commit(sync_name);
}

}  // namespace trireme
