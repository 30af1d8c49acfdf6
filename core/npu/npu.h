// Npu: torch_npu in this process: imports it once, checks it and selects its device. After that ATen computes
// on at::Device(at::kPrivateUse1, index). Which commands need it is up to them.
#pragma once

#include <string>

#include "core/device/compute_stream.h"
#include "core/npu/bridge.h"

namespace trireme {

class Npu : public ComputeStream {
 public:
  // Imports torch_npu at the first call; later calls return the same object. An InputError states what is
  // missing or of the wrong version. `device`: ACL's index, the same in every call.
  static Npu& Open(int device);

  int device() const { return device_; }
  const std::string& version() const { return version_; }  // of torch_npu
  NpuBridge& bridge() { return bridge_; }

  Stream Flushed() override { return Stream::Borrow(bridge_.FlushedStream()); }
  Stream Current() override { return Stream::Borrow(bridge_.CurrentStream()); }

 private:
  Npu(int device, std::string version, NpuBridge& bridge);

  const int device_;
  const std::string version_;
  NpuBridge& bridge_;
};

}  // namespace trireme
