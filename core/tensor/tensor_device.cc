#include "core/tensor/tensor_device.h"

#include "core/base/process.h"
#include "core/npu/npu.h"
#include "core/tensor/counted_memory.h"

namespace trireme {

TensorDevice TensorDevice::OfNpu(int index) { return TensorDevice(&Npu::Open(index)); }

at::Device TensorDevice::torch() const {
  return is_cpu() ? at::Device(at::kCPU)
                  : at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(npu_->device()));
}

ComputeStream* TensorDevice::compute() const { return npu_; }

void TensorDevice::Synchronize() const {
  if (!is_cpu()) npu_->Flushed().Synchronize();
}

int64_t TensorDevice::peak_bytes() const {
  return is_cpu() ? PeakResidentBytes() : npu_->bridge().Memory(npu_->device()).peak_allocated;
}

int64_t TensorDevice::tensor_bytes() const {
  return is_cpu() ? CountedMemory::bytes() : npu_->bridge().Memory(npu_->device()).allocated;
}

int64_t TensorDevice::tensor_peak_bytes() const {
  return is_cpu() ? CountedMemory::peak() : npu_->bridge().Memory(npu_->device()).peak_allocated;
}

void TensorDevice::ResetTensorPeak() const {
  if (is_cpu()) return CountedMemory::ResetPeak();
  npu_->bridge().ResetPeak(npu_->device());
}

}  // namespace trireme
