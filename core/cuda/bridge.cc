// Implements bridge.h: the only file that includes torch's CUDA headers.
#include "core/cuda/bridge.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>

namespace trireme {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// In the array of statistics per block kind, the total over all kinds comes first, in every version of torch.
template <typename Statistics>
int64_t Current(const Statistics& statistics) {
  return statistics[0].current;
}
template <typename Statistics>
int64_t Peak(const Statistics& statistics) {
  return statistics[0].peak;
}

class TorchCuda : public CudaBridge {
 public:
  int CurrentDevice() override { return c10::cuda::current_device(); }

  aclrtStream CurrentStream() override { return c10::cuda::getCurrentCUDAStream().stream(); }

  std::string RuntimeVersion() override {
    int version = 0;
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&version));
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  CudaMemory Memory(int device) override {
    const auto statistics = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    return {.allocated = Current(statistics.allocated_bytes),
            .reserved = Current(statistics.reserved_bytes),
            .peak_allocated = Peak(statistics.allocated_bytes),
            .peak_reserved = Peak(statistics.reserved_bytes),
            .fresh_allocations = statistics.num_device_alloc};
  }

  void ResetPeak(int device) override { allocator::resetPeakStats(static_cast<c10::DeviceIndex>(device)); }
};

}  // namespace
}  // namespace trireme

extern "C" __attribute__((visibility("default"))) trireme::CudaBridge* trireme_cuda_bridge() {
  // torch then says of each wait of the host for the device where it was.
  if (std::getenv("CUDA_PROVIDER_SAY_WAITS") != nullptr) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  static trireme::TorchCuda bridge;
  return &bridge;
}
