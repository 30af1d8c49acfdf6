#include "ops/kernel_place.h"

#include <ATen/Parallel.h>

#include "core/base/error.h"
#include "core/npu/npu.h"

#ifdef TRIREME_CANN_TWIN
// The twin's: stands for a stream, and runs a kernel's blocks on the calling thread and additional ones.
extern "C" void* twinCallersThreads(uint32_t threads);
#endif

namespace trireme {
namespace {

uint32_t VectorCores(int device) {
  int64_t cores = 0;
  const aclError code = aclGetDeviceCapability(static_cast<uint32_t>(device), ACL_DEVICE_INFO_VECTOR_CORE_NUM, &cores);
  return code == ACL_SUCCESS && cores > 0 ? static_cast<uint32_t>(cores) : 40;
}

}  // namespace

std::string WhyNoKernel(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kHalf && type != at::kBFloat16)
    return Concat("kernels support fp32, fp16 and bf16, not ", c10::toString(type));
  if (!tensor.is_contiguous()) return "the tensor is strided";
  if (tensor.is_privateuseone()) return "";
#ifdef TRIREME_CANN_TWIN
  if (tensor.device().is_cpu()) return "";
#endif
  return Concat("this build has no kernels for device ", tensor.device().str());
}

// On the CPU always forty blocks: sums are the same for any number of threads.
ascendc::KernelPlace PlaceOf(const at::Tensor& tensor) {
  TRIREME_CHECK(WhyNoKernel(tensor).empty());
  if (tensor.is_privateuseone()) {
    const int device = tensor.device().index();
    static const uint32_t cores = VectorCores(device);
    return {.stream = Npu::Open(device).Flushed().handle(), .cores = cores};
  }
#ifdef TRIREME_CANN_TWIN
  return {
      .stream = twinCallersThreads(static_cast<uint32_t>(at::get_num_threads())), .cores = 40, .longest_tile = 1024};
#else
  return {};
#endif
}

ascendc::Element ElementOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return ascendc::Element::kFloat;
    case at::kHalf:
      return ascendc::Element::kHalf;
    default:
      return ascendc::Element::kBfloat16;
  }
}

}  // namespace trireme
