// HCCL requires that all calls on a device are issued one at a time. The guard wraps each call and aborts,
// naming both, if two threads overlap. It detects the mistake; it does not make it safe.
#pragma once

#include <atomic>

#include "core/base/error.h"

namespace trireme {

// One per device: the call being issued right now.
struct IssueSlot {
  std::atomic<bool> busy{false};
  std::atomic<const char*> group{""};
  std::atomic<const char*> operation{""};
};

class IssueGuard {
 public:
  // Both names must outlive the slot.
  IssueGuard(IssueSlot& slot, const char* group, const char* operation) : slot_(slot) {
    const bool overlaps = slot_.busy.exchange(true, std::memory_order_acquire);
    TRIREME_CHECK(!overlaps) << "two threads issue communication at once: " << operation << " on group " << group
                             << " concurrently with " << slot_.operation.load() << " on group " << slot_.group.load()
                             << "; issue all calls from one thread";
    slot_.group.store(group, std::memory_order_relaxed);
    slot_.operation.store(operation, std::memory_order_relaxed);
  }
  ~IssueGuard() { slot_.busy.store(false, std::memory_order_release); }
  IssueGuard(const IssueGuard&) = delete;
  IssueGuard& operator=(const IssueGuard&) = delete;

 private:
  IssueSlot& slot_;
};

}  // namespace trireme
