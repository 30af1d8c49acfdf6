// Device cpu: the host's cores. Results are ready when a call returns; memory is the process's.
#include "core/base/process.h"
#include "core/tensor/counted_memory.h"
#include "core/tensor/tensor_devices.h"
#include "core/tensor/torch_runtime.h"

namespace trireme {
namespace {

class CpuDevice : public TensorDevice {
 public:
  at::Device torch() const override { return at::kCPU; }
  std::string software() const override { return "libtorch " + TorchHeaderVersion(); }
  ComputeStream* compute() const override { return nullptr; }
  void Synchronize() const override {}
  int64_t peak_bytes() const override { return PeakResidentBytes(); }
  int64_t tensor_bytes() const override { return CountedMemory::bytes(); }
  int64_t tensor_peak_bytes() const override { return CountedMemory::peak(); }
  void ResetTensorPeak() const override { CountedMemory::ResetPeak(); }
};

}  // namespace

TensorDevice& TensorDevice::Cpu() {
  static CpuDevice cpu;
  return cpu;
}

TensorDeviceEntry CpuEntry() {
  return {.name = "cpu",
          .why_not = [](const std::string&) { return std::string(); },
          .taken_by_auto = [](const std::string&) { return true; },
          .open = [](int) -> TensorDevice& { return TensorDevice::Cpu(); }};
}

}  // namespace trireme
