// An in-order queue of device work that runs concurrently with the host and other streams. Which work goes
// where and when to join is up to the caller; destroying a stream first finishes its work. A borrowed one is
// left alone.
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
  // A stream owned by someone else, who outlives this object.
  static Stream Borrow(aclrtStream handle) { return Stream(handle, /*owned=*/false); }

  // Blocks the host until all queued work is done; throws if the work failed.
  void Synchronize() const;
  // The same with a timeout; false if it expired first.
  bool SynchronizeFor(std::chrono::milliseconds limit) const;
  bool idle() const;

  // Work queued from now on starts after `event`'s latest record.
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
