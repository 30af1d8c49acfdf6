#include "providers/cuda/nccl.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace trireme_cuda {
namespace {

constexpr int kKeepExisting = 0;

// NCCL refuses two ranks on one GPU of one host. If GPUs are shared on purpose, each rank claims to be a
// separate host, and they communicate over the loopback interface: correct, but slow.
void ShareGpus() {
  const char* shares = std::getenv("CUDA_PROVIDER_RANKS_PER_GPU");
  if (shares == nullptr || std::atoi(shares) < 2) return;
  setenv("NCCL_HOSTID", ("rank-of-process-" + std::to_string(getpid())).c_str(), kKeepExisting);
  setenv("NCCL_NET", "Socket", kKeepExisting);
  setenv("NCCL_SOCKET_IFNAME", "lo", kKeepExisting);
}

Nccl Open() {
  ShareGpus();
  // Ranks have several communicators, and issue their calls in the same order.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kKeepExisting);
  Nccl nccl;
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    nccl.missing = std::string("NCCL cannot be loaded (") + dlerror() + "); scripts/setup --cuda installs it";
    return nccl;
  }
#define TRIREME_NCCL_FIND(name)                                                    \
  nccl.name = reinterpret_cast<decltype(nccl.name)>(dlsym(library, "nccl" #name)); \
  if (nccl.name == nullptr) nccl.missing = "libnccl.so.2 has no nccl" #name "; wanted NCCL 2.13 or newer";
  TRIREME_NCCL_FUNCTIONS(TRIREME_NCCL_FIND)
#undef TRIREME_NCCL_FIND
  return nccl;
}

}  // namespace

const Nccl& TheNccl() {
  static const Nccl nccl = Open();
  return nccl;
}

}  // namespace trireme_cuda
