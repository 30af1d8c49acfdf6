// Npu: torch_npu in this process: imported once, checked, and its device chosen. After that ATen computes on
// at::Device(at::kPrivateUse1, index). Which commands want that is theirs to say.
#pragma once

#include <string>

#include "core/device/compute_stream.h"
#include "core/npu/bridge.h"

namespace trireme {

class Npu : public ComputeStream {
 public:
  // Brings torch_npu in at the first call; each later one gives the same. An InputError says what is missing
  // or of the wrong version. `device`: the index that ACL counts by, the same in every call.
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
