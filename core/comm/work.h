// The handle of a queued communication call, to wait for it, on the host or on a stream.
// Cheap to copy; must not outlive its communicator.
#pragma once

#include <cstdint>

#include "core/device/stream.h"

namespace trireme {

class Communicator;

class [[nodiscard]] Work {
 public:
  Work(Communicator& communicator, uint64_t sequence) : communicator_(&communicator), sequence_(sequence) {}

  // Blocks the host. A peer that failed or never arrived becomes an Error that names group, operation and
  // number.
  void Wait() const;
  // Computation from now on may use the result: if tensors are computed on a stream, that stream waits
  // and the host continues; otherwise as Wait().
  void Join() const;
  // What is queued on `stream` from now on starts after the call is done.
  void WaitOn(const Stream& stream) const;
  bool done() const;

  uint64_t sequence() const { return sequence_; }

 private:
  Communicator* communicator_;
  uint64_t sequence_;
};

}  // namespace trireme
