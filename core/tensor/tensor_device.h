// TensorDevice: where tensors are computed, and what that means for those who handle them: which stream to
// order communication with, how much memory was used, when results are there. One file per device beside this
// one; which there are, and which one a run gets, is tensor_devices.h's business.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "core/device/compute_stream.h"

namespace trireme {

class TensorDevice {
 public:
  TensorDevice() = default;
  virtual ~TensorDevice() = default;
  TensorDevice(const TensorDevice&) = delete;
  TensorDevice& operator=(const TensorDevice&) = delete;

  // The host's cores, which every program has.
  static TensorDevice& Cpu();

  virtual at::Device torch() const = 0;
  bool is_cpu() const { return torch().is_cpu(); }
  // What computes there, with its version: "torch_npu 2.7.1".
  virtual std::string software() const = 0;

  // Null on the cpu, where a result is there when a call returns.
  virtual ComputeStream* compute() const = 0;
  // The host waits for all that was computed; on the cpu nothing.
  virtual void Synchronize() const = 0;

  // The most memory at one time: resident on the cpu since the start, elsewhere the allocator's since
  // ResetTensorPeak.
  virtual int64_t peak_bytes() const = 0;
  // What tensors have now, and the most since ResetTensorPeak. On the cpu CountedMemory must have begun.
  virtual int64_t tensor_bytes() const = 0;
  virtual int64_t tensor_peak_bytes() const = 0;
  virtual void ResetTensorPeak() const = 0;
  // How often the allocator has asked the device for memory so far; 0 where nobody counts.
  virtual int64_t fresh_allocations() const { return 0; }
};

}  // namespace trireme
