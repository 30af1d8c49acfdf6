// TensorDevice: where tensors are computed, and what follows from it: which stream to
// order communication with, how much memory was used, when results are ready. One file per device beside this
// one; the list, and the choice for a run, are in tensor_devices.h.
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

  // Throws an InputError where matrices cannot be multiplied in 8-bit floating point; the cpu computes their reference.
  virtual void RequireFp8() const {}

  // Null on the cpu, where results are ready when a call returns.
  virtual ComputeStream* compute() const = 0;
  // Blocks the host until everything is computed; on the cpu a no-op.
  virtual void Synchronize() const = 0;

  // Peak memory: on the cpu the resident set since the start, elsewhere the allocator's since
  // ResetTensorPeak.
  virtual int64_t peak_bytes() const = 0;
  // Memory of tensors now, and its peak since ResetTensorPeak. On the cpu CountedMemory must be active.
  virtual int64_t tensor_bytes() const = 0;
  virtual int64_t tensor_peak_bytes() const = 0;
  virtual void ResetTensorPeak() const = 0;
  // How often the allocator has asked the device for memory so far; 0 where nobody counts.
  virtual int64_t fresh_allocations() const { return 0; }
};

}  // namespace trireme
