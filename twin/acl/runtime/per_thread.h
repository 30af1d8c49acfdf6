// A per-thread value that stays valid late: the main thread's is never destroyed, so that destructors of the
// program's static objects may still call ACL.
#pragma once

#include <unistd.h>

namespace twin {

template <class Value>
Value& PerThread() {
  thread_local Value* reached = nullptr;
  struct Owner {
    ~Owner() {
      if (getpid() == gettid()) return;
      delete reached;
      reached = nullptr;
    }
  };
  if (reached == nullptr) {
    thread_local Owner owner;
    reached = new Value;
  }
  return *reached;
}

}  // namespace twin
