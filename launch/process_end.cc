#include "launch/process_end.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace trireme {
namespace {

bool IsLoaded(const char* library) {
  void* found = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (found != nullptr) dlclose(found);
  return found != nullptr;
}

bool HasEndOfItsOwn() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return IsLoaded("libtorch_npu.so") || IsLoaded("libtorch_cuda.so");
#endif
}

}  // namespace

int EndProcess(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  if (!HasEndOfItsOwn()) _exit(status);
  return status;
}

}  // namespace trireme
