// A preload library that makes one file-changing call fail, or kills the process there, so that tests can
// interrupt a program at every single write, sync and rename. Counts calls on files whose path contains
// FAULT_UNDER:
//   FAULT_AT=K        the K-th such call, from 1; 0: none
//   FAULT_WITH=kill   the process is killed instead of the call; or an errno number: the call fails with it
//   FAULT_RANK=R      only in rank R of an MPI job
//   FAULT_LOG=FILE    each watched call is appended there: its name and path, both paths for a rename
//   FAULT_COUNT=FILE  the number of calls and the name of the K-th are written there when the process exits
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace {

std::atomic<int> calls{0};

const char* Setting(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool Watched(const char* path) {
  static const std::string under = Setting("FAULT_UNDER");
  static const std::string only = Setting("FAULT_RANK"), rank = Setting("OMPI_COMM_WORLD_RANK");
  return !under.empty() && (only.empty() || only == rank) && strstr(path, under.c_str()) != nullptr;
}

std::string PathOf(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  return length < 0 ? std::string() : std::string(path, static_cast<size_t>(length));
}

// Whether the call is watched; if so, it is logged.
bool Watched(const char* call, const std::string& path, const std::string& to = "") {
  if (path.empty() || !Watched(path.c_str())) return false;
  const char* log = Setting("FAULT_LOG");
  if (*log != 0) {
    FILE* file = fopen(log, "a");
    if (file != nullptr) {
      fprintf(file, "%s %s %s\n", call, path.c_str(), to.c_str());
      fclose(file);
    }
  }
  return true;
}

// Whether this is the call that must fail; sets errno.
bool Strike() {
  static const int at = atoi(Setting("FAULT_AT"));
  static const std::string with = Setting("FAULT_WITH");
  if (++calls != at) return false;
  if (with == "kill") kill(getpid(), SIGKILL);
  errno = atoi(with.c_str());
  return true;
}

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

struct Counter {
  ~Counter() {
    const char* path = Setting("FAULT_COUNT");
    if (*path == 0) return;
    FILE* file = fopen(path, "w");
    if (file == nullptr) return;
    fprintf(file, "%d\n", calls.load());
    fclose(file);
  }
} counter;

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t)>("write");
  return Watched("write", PathOf(fd)) && Strike() ? -1 : real(fd, data, bytes);
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return Watched("write", PathOf(fd)) && Strike() ? -1 : real(fd, data, bytes, offset);
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return Watched("write", PathOf(fd)) && Strike() ? -1 : real(fd, data, bytes, offset);
}

int fsync(int fd) {
  static const auto real = Real<int (*)(int)>("fsync");
  return Watched("fsync", PathOf(fd)) && Strike() ? -1 : real(fd);
}

int ftruncate64(int fd, off64_t length) {
  static const auto real = Real<int (*)(int, off64_t)>("ftruncate64");
  return Watched("write", PathOf(fd)) && Strike() ? -1 : real(fd, length);
}

int rename(const char* from, const char* to) {
  static const auto real = Real<int (*)(const char*, const char*)>("rename");
  return Watched("rename", from, to) && Strike() ? -1 : real(from, to);
}

int unlinkat(int fd, const char* path, int flags) {
  static const auto real = Real<int (*)(int, const char*, int)>("unlinkat");
  return Watched("unlink", PathOf(fd)) && Strike() ? -1 : real(fd, path, flags);
}

int open64(const char* path, int flags, ...) {
  static const auto real = Real<int (*)(const char*, int, ...)>("open64");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return (flags & O_CREAT) != 0 && Watched("create", path) && Strike() ? -1 : real(path, flags, mode);
}

int open(const char* path, int flags, ...) {
  static const auto real = Real<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return (flags & O_CREAT) != 0 && Watched("create", path) && Strike() ? -1 : real(path, flags, mode);
}

}  // extern "C"
