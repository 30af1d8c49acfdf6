#include "launch/device_facts.h"

#include "core/tensor/matrix_rate.h"
#include "core/tensor/tensor_devices.h"
#include "core/tensor/torch_errors.h"

namespace trireme {

std::string DeviceName(DeviceChoice choice) { return ChooseTensorDevice(choice).name; }

std::string OpenDevice(DeviceChoice choice, Device& device) {
  std::string spelled;
  WithTorchErrors([&] { spelled = OpenTensorDevice(choice, device).torch().str(); });
  return spelled;
}

Json DeviceFacts(DeviceChoice choice, Device& device) {
  Json facts;
  WithTorchErrors([&] {
    const TensorDevice& tensors = OpenTensorDevice(choice, device);
    facts = {{"software", tensors.software()},
             {"matrix_tflops",
              {{"fp32", MeasureMatrixRate(DType::kFp32, tensors) / 1e12},
               {"bf16", MeasureMatrixRate(DType::kBf16, tensors) / 1e12}}},
             {"copy_gbs", MeasureCopyRate(tensors) / 1e9}};
  });
  return facts;
}

}  // namespace trireme
