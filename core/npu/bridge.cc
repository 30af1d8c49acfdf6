// Implements bridge.h: the only file that includes torch_npu's headers.
#include "core/npu/bridge.h"

#include "torch_npu/csrc/core/npu/NPUCachingAllocator.h"
#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace trireme {
namespace {

int64_t Current(const c10_npu::NPUCachingAllocator::StatArray& stat) { return stat[0].current; }
int64_t Peak(const c10_npu::NPUCachingAllocator::StatArray& stat) { return stat[0].peak; }

class TorchNpu : public NpuBridge {
 public:
  void SetDevice(int device) override { c10_npu::set_device(static_cast<c10::DeviceIndex>(device)); }

  aclrtStream CurrentStream() override { return c10_npu::getCurrentNPUStream().stream(/*need_empty=*/false); }
  aclrtStream FlushedStream() override { return c10_npu::getCurrentNPUStream().stream(/*need_empty=*/true); }

  void Launch(const char* name, std::function<void(aclrtStream)> launch) override {
    aclrtStream stream = CurrentStream();
    at_npu::native::OpCommand::RunOpApiV2(name, [launch = std::move(launch), stream] {
      launch(stream);
      return 0;
    });
  }

  NpuMemory Memory(int device) override {
    const auto stats = c10_npu::NPUCachingAllocator::getDeviceStats(device);
    return {.allocated = Current(stats.allocated_bytes),
            .reserved = Current(stats.reserved_bytes),
            .peak_allocated = Peak(stats.allocated_bytes),
            .peak_reserved = Peak(stats.reserved_bytes)};
  }

  void ResetPeak(int device) override { c10_npu::NPUCachingAllocator::resetPeakStats(device); }
};

}  // namespace
}  // namespace trireme

extern "C" __attribute__((visibility("default"))) trireme::NpuBridge* trireme_npu_bridge() {
  static trireme::TorchNpu bridge;
  return &bridge;
}
