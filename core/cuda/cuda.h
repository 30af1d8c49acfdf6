// Cuda: libtorch's CUDA side in this process: its libraries opened once, the device taken that ACL has made
// current. After that ATen computes on at::Device(at::kCUDA, device()). Which commands want that is theirs to
// say.
#pragma once

#include "core/cuda/bridge.h"
#include "core/device/compute_stream.h"

namespace trireme {

class Cuda : public ComputeStream {
 public:
  // Opens the libraries at the first call; each later one gives the same. An InputError says what is missing.
  // A device is current (core/device/device.h).
  static Cuda& Open();

  int device() const { return device_; }  // as torch counts
  CudaBridge& bridge() { return bridge_; }

  // torch puts each operator on the stream at once: there is no queue to flush.
  Stream Flushed() override { return Current(); }
  Stream Current() override { return Stream::Borrow(bridge_.CurrentStream()); }

 private:
  explicit Cuda(CudaBridge& bridge);

  CudaBridge& bridge_;
  const int device_;
};

}  // namespace trireme
