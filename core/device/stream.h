// An in-order queue of device work that runs beside the host and beside other streams. Which work goes where
// is the caller's business, and so is joining: a stream that is destroyed finishes its work first. A borrowed
// one is left alone.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "acl/acl.h"

namespace trireme {

class Event;

class Stream {
 public:
  Stream();
  // A stream that belongs to somebody else, who outlives it.
  static Stream Borrow(aclrtStream handle) { return Stream(handle, /*owned=*/false); }

  // Blocks the host until all queued work is done; throws what the work failed with.
  void Synchronize() const;
  // The same with a limit; false where it passed first.
  bool SynchronizeFor(std::chrono::milliseconds limit) const;
  bool idle() const;

  // What is queued from now on starts after `event`'s latest record.
  void WaitFor(const Event& event) const;
  // Queues a host function; it must not call ACL.
  void RunOnHost(std::function<void()> function) const;

  aclrtStream handle() const { return handle_.get(); }

 private:
  struct Destroy {
    bool owned;
    void operator()(aclrtStream stream) const;
  };
  Stream(aclrtStream handle, bool owned) : handle_(handle, Destroy{owned}) {}

  std::unique_ptr<void, Destroy> handle_;
};

}  // namespace trireme
