// Implements bridge.h: the only file that includes torch_npu's headers.
#include "core/npu/bridge.h"

#include <cstring>  // which torch_npu's headers use without including it

#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace trireme {
namespace {

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
};

}  // namespace
}  // namespace trireme

extern "C" __attribute__((visibility("default"))) trireme::NpuBridge* trireme_npu_bridge() {
  static trireme::TorchNpu bridge;
  return &bridge;
}
