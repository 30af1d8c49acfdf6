// TensorDevice: where tensors are computed, cpu or npu, and what that means for those who handle them: which
// stream to order communication with, how much memory was used, when results are there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/device/compute_stream.h"

namespace trireme {

class Npu;  // core/npu

class TensorDevice {
 public:
  static TensorDevice Cpu() { return TensorDevice(nullptr); }
  // Brings torch_npu into the process; `index` as ACL counts.
  static TensorDevice OfNpu(int index);

  bool is_cpu() const { return npu_ == nullptr; }
  at::Device torch() const;
  // Null on the cpu, where a result is there when a call returns.
  ComputeStream* compute() const;
  // The host waits for all that was computed; on the cpu nothing.
  void Synchronize() const;

  // The most memory at one time: resident on the cpu since the start, elsewhere the allocator's since
  // ResetTensorPeak.
  int64_t peak_bytes() const;
  // What tensors have now, and the most since ResetTensorPeak. On the cpu CountedMemory must have begun.
  int64_t tensor_bytes() const;
  int64_t tensor_peak_bytes() const;
  void ResetTensorPeak() const;

 private:
  explicit TensorDevice(Npu* npu) : npu_(npu) {}
  Npu* npu_;
};

}  // namespace trireme
