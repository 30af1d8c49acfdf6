// What the framework asks of torch_npu beyond ATen's own interface. Implemented by a small library that links
// libtorch_npu and is opened after torch_npu was imported (npu.h), so that nobody else needs its headers or
// its names. No tensor and no ATen type in here.
#pragma once

#include <cstdint>
#include <functional>

#include "acl/acl.h"

namespace trireme {

struct NpuMemory {  // of torch_npu's allocator, bytes
  int64_t allocated = 0;
  int64_t reserved = 0;
  int64_t peak_allocated = 0;  // since the start or ResetPeak
  int64_t peak_reserved = 0;
};

class NpuBridge {
 public:
  virtual ~NpuBridge() = default;

  // Makes the device current for torch_npu on this thread.
  virtual void SetDevice(int device) = 0;
  // The stream that operators of this thread go to. Flushed: all operators that were called are on it, none
  // is in torch_npu's own queue (TASK_QUEUE_ENABLE) any more.
  virtual aclrtStream CurrentStream() = 0;
  virtual aclrtStream FlushedStream() = 0;
  // Calls `launch` with the current stream, in order with the operators: through torch_npu's queue where
  // there is one.
  virtual void Launch(const char* name, std::function<void(aclrtStream)> launch) = 0;

  virtual NpuMemory Memory(int device) = 0;
  virtual void ResetPeak(int device) = 0;
};

// The name under which the library gives its one NpuBridge.
using NpuBridgeFunction = NpuBridge*();
inline constexpr const char* kNpuBridgeFunction = "trireme_npu_bridge";

}  // namespace trireme
