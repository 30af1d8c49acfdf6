// Two threads that issue calls concurrently are caught, and both calls are named.
#include "core/comm/issue_guard.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(IssueGuard, SerialCallsAreAccepted) {
  IssueSlot slot;
  {
    const IssueGuard guard(slot, "tp", "all_reduce");
  }
  const IssueGuard guard(slot, "dp", "all_gather");
  EXPECT_TRUE(slot.busy);
}

TEST(IssueGuardDeathTest, OverlapNamesBothCalls) {
  IssueSlot slot;
  const IssueGuard first(slot, "tp", "all_reduce");
  EXPECT_DEATH(IssueGuard(slot, "dp", "all_gather"),
               "all_gather on group dp concurrently with all_reduce on group tp; issue all calls from one thread");
}

}  // namespace
}  // namespace trireme
