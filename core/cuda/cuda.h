// Cuda: libtorch's CUDA side in this process: opens its libraries once and uses the device that ACL has made
// current. After that ATen computes on at::Device(at::kCUDA, device()). Which commands need it is up to
// them.
#pragma once

#include "core/cuda/bridge.h"
#include "core/device/compute_stream.h"

namespace trireme {

class Cuda : public ComputeStream {
 public:
  // Opens the libraries at the first call; later calls return the same object. An InputError states what is
  // missing. A device must be current (core/device/device.h).
  static Cuda& Open();

  int device() const { return device_; }  // torch's index
  CudaBridge& bridge() { return bridge_; }

  // torch launches each operator immediately: there is no queue to flush.
  Stream Flushed() override { return Current(); }
  Stream Current() override { return Stream::Borrow(bridge_.CurrentStream()); }

 private:
  explicit Cuda(CudaBridge& bridge);

  CudaBridge& bridge_;
  const int device_;
};

}  // namespace trireme
