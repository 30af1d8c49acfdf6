// Npu: torch_npu in this process: imports it once, checks it and selects its device. After that ATen computes
// on at::Device(at::kPrivateUse1, index). Which commands need it is up to them.
#pragma once

#include <cstdint>
#include <string>

#include "core/device/compute_stream.h"
#include "core/npu/bridge.h"

namespace trireme {

class EmbeddedPython;

struct NpuMemory {  // of torch_npu's allocator, bytes
  int64_t allocated = 0;
  int64_t reserved = 0;
  int64_t peak_allocated = 0;  // since the start or ResetPeak
  int64_t peak_reserved = 0;
  int64_t requested = 0;  // of `allocated`, what tensors asked for: blocks may be larger by up to 1 MiB
  int64_t peak_requested = 0;
};

class Npu : public ComputeStream {
 public:
  // Imports torch_npu at the first call; later calls return the same object. An InputError states what is
  // missing or of the wrong version. `device`: ACL's index, the same in every call.
  static Npu& Open(int device);
  Npu(int device, std::string version, const EmbeddedPython& python, NpuBridge& bridge);  // for Open

  int device() const { return device_; }
  const std::string& version() const { return version_; }  // of torch_npu
  NpuBridge& bridge() { return bridge_; }
  NpuMemory Memory() const;
  void ResetPeak();

  Stream Flushed() override { return Stream::Borrow(bridge_.FlushedStream()); }
  Stream Current() override { return Stream::Borrow(bridge_.CurrentStream()); }

 private:
  const int device_;
  const std::string version_;
  const EmbeddedPython& python_;
  NpuBridge& bridge_;
};

}  // namespace trireme
