#include "ops/cuda/launch.h"

#include <dlfcn.h>

#include "core/base/error.h"
#include "core/base/own_files.h"
#include "core/cuda/cuda.h"

namespace trireme {
namespace {

struct Library {
  const cuda::Kernels* kernels = nullptr;
  std::string why_not;
};

Library OpenLibrary() {
#ifdef TRIREME_CUDA_KERNELS
  void* library = dlopen(OwnFile(TRIREME_CUDA_KERNELS).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, Concat("the kernels cannot be loaded (", dlerror(), ")")};
  void* function = dlsym(library, cuda::kKernelsFunction);
  TRIREME_CHECK(function != nullptr) << TRIREME_CUDA_KERNELS << " has no " << cuda::kKernelsFunction;
  return {reinterpret_cast<cuda::KernelsFunction*>(function)(), ""};
#else
  return {nullptr, "this build has no kernels for GPUs: nvcc was not found when it was configured"};
#endif
}

const Library& TheLibrary() {
  static const Library library = OpenLibrary();
  return library;
}

}  // namespace

std::string WhyNoCudaKernel(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return "the kernels are for a GPU";
  const auto type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16) return "the kernels compute fp32 and bf16 only";
  if (!tensor.is_contiguous()) return "the tensor is strided";
  return TheLibrary().why_not;
}

std::string WhyNoCudaRow(const at::Tensor& tensor, int64_t columns) {
  const int64_t wide = 16 / tensor.element_size(), pack = columns % wide == 0 ? wide : 1;
  const int64_t most = pack * cuda::kPacksPerThread * cuda::kThreadsPerRow;
  return columns <= most ? "" : Concat("a row of ", columns, " elements; a block keeps ", most);
}

const cuda::Kernels& CudaKernels() {
  TRIREME_CHECK(TheLibrary().kernels != nullptr) << TheLibrary().why_not;
  return *TheLibrary().kernels;
}

void* CudaStream() { return Cuda::Open().bridge().CurrentStream(); }

void CheckLaunch(int code, const char* kernel) {
  if (code != 0) throw RuntimeError("device cuda: the kernel of ", kernel, " was not launched: CUDA's error ", code);
}

}  // namespace trireme
