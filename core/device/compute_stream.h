// ComputeStream: the stream on which tensors are computed, if a device computes them. Communication that
// uses it starts after the computation so far and makes later computation wait, without blocking the host. If
// the host computes, there is none: results are ready when a call returns.
#pragma once

#include "core/device/stream.h"

namespace trireme {

class ComputeStream {
 public:
  virtual ~ComputeStream() = default;

  // Both are the same stream, borrowed. Flushed: all computation requested so far is on it; a tensor
  // library may have its own queue before the stream.
  virtual Stream Flushed() = 0;
  virtual Stream Current() = 0;
};

}  // namespace trireme
