// ComputeStream: the stream on which tensors are computed, where a device computes them. Communication that
// knows it starts after the computation so far and lets later computation wait, without the host. Where the
// host computes there is none: results are there when a call returns.
#pragma once

#include "core/device/stream.h"

namespace trireme {

class ComputeStream {
 public:
  virtual ~ComputeStream() = default;

  // Both are the same stream, borrowed. Flushed: all computation that was asked for so far is on it; a tensor
  // library may keep a queue of its own in front.
  virtual Stream Flushed() = 0;
  virtual Stream Current() = 0;
};

}  // namespace trireme
