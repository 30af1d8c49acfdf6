#include "core/cuda/cuda.h"

#include <dlfcn.h>

#include "core/base/error.h"
#include "core/base/own_files.h"

namespace trireme {
namespace {

constexpr const char* kBridge = "libtrireme_cuda_bridge.so";

CudaBridge& OpenBridge() {
  void* library = dlopen(OwnFile(kBridge).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw InputError("device cuda: torch's CUDA libraries cannot be loaded (", dlerror(),
                     "); run scripts/setup --cuda, then scripts/build");
  }
  void* function = dlsym(library, kCudaBridgeFunction);
  TRIREME_CHECK(function != nullptr) << kBridge << " has no " << kCudaBridgeFunction;
  return *reinterpret_cast<CudaBridgeFunction*>(function)();
}

}  // namespace

Cuda::Cuda(CudaBridge& bridge) : bridge_(bridge), device_(bridge.CurrentDevice()) {}

Cuda& Cuda::Open() {
  // Never destroyed: autograd's threads may use the device during static destruction.
  static Cuda* const cuda = new Cuda(OpenBridge());
  return *cuda;
}

}  // namespace trireme
