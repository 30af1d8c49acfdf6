// Retries: what may go away by itself is tried again, after waits that double. No torch.
#pragma once

#include "core/base/error.h"

namespace trireme {

class Retries {
 public:
  // Waits before the next try. Throws the error again if it is not a runtime error, or after too many of them.
  void Failed(const Error& error);
  // There was some progress since: the waits begin anew.
  void Progressed() { failures_ = 0; }

 private:
  int failures_ = 0;
};

}  // namespace trireme
