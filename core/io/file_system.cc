#include "core/io/file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "core/base/error.h"

namespace trireme {
namespace {

[[noreturn]] void Fail(const std::filesystem::path& path, const char* what, int number) {
  throw RuntimeError(path.string(), ": ", what, ": ", std::strerror(number));
}

void Sync(const std::filesystem::path& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) Fail(path, "cannot be opened for syncing", errno);
  const bool synced = fsync(fd) == 0 || errno == EINVAL;  // some file systems cannot sync directories
  const int number = errno;
  close(fd);
  if (!synced) Fail(path, "cannot be synced", number);
}

}  // namespace

std::filesystem::path FolderOf(const std::filesystem::path& path) {
  const std::filesystem::path clean = path.has_filename() ? path : path.parent_path();
  return clean.has_parent_path() ? clean.parent_path() : ".";
}

void SyncFile(const std::filesystem::path& file) { Sync(file, O_RDONLY); }

void SyncFolder(const std::filesystem::path& folder) { Sync(folder, O_RDONLY | O_DIRECTORY); }

void RenameAndSync(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) Fail(to, "cannot be renamed to this name", errno);
  SyncFolder(FolderOf(to));
}

void ExchangeAndSync(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) != 0) {
    Fail(b, "cannot be replaced atomically; remove it first", errno);
  }
  SyncFolder(FolderOf(b));
}

void CreateFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) Fail(folder, "cannot be created", error.value());
}

void RemoveAll(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) Fail(path, "cannot be removed", error.value());
}

}  // namespace trireme
