// NoStep: what a step needs from outside did not come, on any rank, and nothing of it was trained: the steps before it
// can be saved, and the run resumed.
#pragma once

#include "core/base/error.h"

namespace trireme {

class NoStep : public Error {
 public:
  using Error::Error;
  virtual const char* missing() const = 0;  // what did not come
};

}  // namespace trireme
