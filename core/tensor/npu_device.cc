// Device npu: torch_npu's tensors on an Ascend device, or on the twin's.
#include "core/base/error.h"
#include "core/npu/npu.h"
#include "core/tensor/tensor_devices.h"

namespace trireme {
namespace {

class NpuDevice : public TensorDevice {
 public:
  explicit NpuDevice(Npu& npu) : npu_(npu) {}

  at::Device torch() const override {
    return at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(npu_.device()));
  }
  std::string software() const override { return "torch_npu " + npu_.version(); }
  ComputeStream* compute() const override { return &npu_; }
  void Synchronize() const override { npu_.Flushed().Synchronize(); }
  int64_t peak_bytes() const override { return npu_.Memory().peak_allocated; }
  int64_t tensor_bytes() const override { return npu_.Memory().requested; }
  int64_t tensor_peak_bytes() const override { return npu_.Memory().peak_requested; }
  void ResetTensorPeak() const override { npu_.ResetPeak(); }

 private:
  Npu& npu_;
};

std::string WhyNoNpu(const std::string& provider) {
  if (provider != "cuda") return "";
  return "this program was built with TRIREME_CANN=cuda; build with ascend, or with twin for the host's "
         "stand-in";
}

}  // namespace

// The twin's npu is slower than the cpu it runs on: it must be requested by name.
TensorDeviceEntry NpuEntry() {
  return {.name = "npu",
          .why_not = WhyNoNpu,
          .taken_by_auto = [](const std::string& provider) { return provider == "ascend"; },
          .open = [](int index) -> TensorDevice& {
            static NpuDevice npu(Npu::Open(index));
            return npu;
          }};
}

}  // namespace trireme
