// What the framework needs from torch_npu beyond ATen's interface. Implemented by a small library that links
// libtorch_npu and is opened after torch_npu has been imported (npu.h), so that no other code needs its
// headers or its symbols. Only functions that libtorch_npu exports under their own names: opening the library
// then shows whether the installed version has them all. No tensor and no ATen type in here.
#pragma once

#include <functional>

#include "acl/acl.h"

namespace trireme {

class NpuBridge {
 public:
  virtual ~NpuBridge() = default;

  // Makes the device current for torch_npu on this thread.
  virtual void SetDevice(int device) = 0;
  // The stream that operators of this thread go to. Flushed: all operators called so far are on it, none
  // remains in torch_npu's own queue (TASK_QUEUE_ENABLE).
  virtual aclrtStream CurrentStream() = 0;
  virtual aclrtStream FlushedStream() = 0;
  // Calls `launch` with the current stream, in order with the operators: through torch_npu's queue if
  // there is one.
  virtual void Launch(const char* name, std::function<void(aclrtStream)> launch) = 0;
};

// The name under which the library exports its NpuBridge.
using NpuBridgeFunction = NpuBridge*();
inline constexpr const char* kNpuBridgeFunction = "trireme_npu_bridge";

}  // namespace trireme
