// A preload library: file locks fail as on a file system without locks.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

template <typename Function>
static Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

static int Fcntl(const char* name, int fd, int command, void* argument) {
  if (command == F_OFD_SETLK) {
    errno = ENOLCK;
    return -1;
  }
  return Real<int (*)(int, int, ...)>(name)(fd, command, argument);
}

extern "C" int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return Fcntl("fcntl", fd, command, argument);
}

extern "C" int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return Fcntl("fcntl64", fd, command, argument);
}
