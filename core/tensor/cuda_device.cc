// Device cuda: libtorch's own CUDA tensors on an NVIDIA GPU.
#include "core/base/error.h"
#include "core/cuda/cuda.h"
#include "core/tensor/tensor_devices.h"
#include "core/tensor/torch_runtime.h"

namespace trireme {
namespace {

class CudaDevice : public TensorDevice {
 public:
  explicit CudaDevice(Cuda& cuda) : cuda_(cuda) {}

  at::Device torch() const override { return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(cuda_.device())); }
  std::string software() const override {
    return Concat("libtorch ", TorchHeaderVersion(), ", CUDA ", cuda_.bridge().RuntimeVersion());
  }
  void RequireFp8() const override {
    constexpr int kAda = 89;  // compute capability 8.9, the first with FP8
    const int capability = cuda_.bridge().Capability();
    if (capability >= kAda) return;
    throw InputError("model.fp8: this GPU has compute capability ", capability / 10, ".", capability % 10,
                     ", and FP8 needs 8.9 (Ada, Hopper) or later; leave model.fp8 out");
  }
  ComputeStream* compute() const override { return &cuda_; }
  void Synchronize() const override { cuda_.Current().Synchronize(); }
  int64_t peak_bytes() const override { return tensor_peak_bytes(); }
  int64_t tensor_bytes() const override { return Memory().allocated; }
  int64_t tensor_peak_bytes() const override { return Memory().peak_allocated; }
  void ResetTensorPeak() const override { cuda_.bridge().ResetPeak(cuda_.device()); }
  int64_t fresh_allocations() const override { return Memory().fresh_allocations; }

 private:
  CudaMemory Memory() const { return cuda_.bridge().Memory(cuda_.device()); }

  Cuda& cuda_;
};

std::string WhyNoCuda(const std::string& provider) {
  if (provider == "cuda") return "";
  return Concat("this program was built with TRIREME_CANN=", provider, "; build with TRIREME_CANN=cuda (docs/cuda.md)");
}

}  // namespace

TensorDeviceEntry CudaEntry() {
  return {.name = "cuda",
          .why_not = WhyNoCuda,
          .taken_by_auto = [](const std::string& provider) { return provider == "cuda"; },
          .open = [](int) -> TensorDevice& {
            static CudaDevice cuda(Cuda::Open());
            SetExactSums();
            return cuda;
          }};
}

}  // namespace trireme
