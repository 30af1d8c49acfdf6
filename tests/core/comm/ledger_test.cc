// Ledger: what a snapshot shows of issued, reached and finished calls and of messages; from several threads.
#include "core/comm/ledger.h"

#include <gtest/gtest.h>

#include <thread>

namespace trireme {
namespace {

TEST(Ledger, ACallGoesFromIssuedToReachedToDone) {
  Ledger ledger;
  const int group = ledger.AddGroup("tp", {4, 5});
  ledger.Issued(group, 1, "all_reduce", 64);
  GroupState state = ledger.Snapshot(4).groups.at(0);
  EXPECT_EQ(state.name, "tp");
  EXPECT_EQ(state.members, (std::vector<int>{4, 5}));
  EXPECT_EQ(state.oldest.operation, "all_reduce");
  EXPECT_EQ(state.oldest.bytes, 64u);
  EXPECT_GE(state.oldest.issued_s, 0);
  EXPECT_FALSE(state.waits());
  EXPECT_EQ(state.collectives_issued, 1u);
  EXPECT_EQ(state.collectives_reached, 0u);

  ledger.Reached(group, 1);
  state = ledger.Snapshot(4).groups[0];
  EXPECT_TRUE(state.waits());
  EXPECT_GE(state.oldest.reached_s, 0);
  EXPECT_EQ(state.collectives_reached, 1u);

  ledger.Done(group, 1);
  state = ledger.Snapshot(4).groups[0];
  EXPECT_FALSE(state.waits());
  EXPECT_EQ(state.oldest.sequence, 0u);
  EXPECT_EQ(state.done, 1u);
  EXPECT_EQ(state.latest.sequence, 1u);
}

TEST(Ledger, TheOldestUnfinishedCallIsKeptHoweverManyFollow) {
  Ledger ledger;
  const int group = ledger.AddGroup("dp-cp", {0, 1});
  ledger.Issued(group, 1, "reduce_scatter");
  for (uint64_t sequence = 2; sequence <= 3000; ++sequence) ledger.Issued(group, sequence, "all_gather");
  const GroupState state = ledger.Snapshot(0).groups[0];
  EXPECT_EQ(state.oldest.operation, "reduce_scatter");
  EXPECT_EQ(state.oldest.sequence, 1u);
  EXPECT_EQ(state.latest.sequence, 3000u);
}

TEST(Ledger, DoneImpliesReachedForAllBefore) {
  Ledger ledger;
  const int group = ledger.AddGroup("tp", {0, 1});
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) ledger.Issued(group, sequence, "all_reduce");
  ledger.Done(group, 2);
  const GroupState state = ledger.Snapshot(0).groups[0];
  EXPECT_EQ(state.collectives_reached, 2u);
  EXPECT_EQ(state.oldest.sequence, 3u);
  EXPECT_FALSE(state.waits());
}

TEST(Ledger, MessagesAreCountedByPeerAndDirection) {
  Ledger ledger;
  const int group = ledger.AddGroup("pp", {0, 4, 8});
  const LedgerMessage to_last[] = {{2, true}};
  const LedgerMessage both[] = {{2, true}, {0, false}};
  ledger.Issued(group, 1, "send", 8, to_last);
  ledger.Issued(group, 2, "batch_send_receive", 16, both);
  ledger.Issued(group, 3, "barrier");
  const GroupState state = ledger.Snapshot(4).groups[0];
  EXPECT_EQ(state.sent, (std::vector<uint64_t>{0, 0, 2}));
  EXPECT_EQ(state.received, (std::vector<uint64_t>{1, 0, 0}));
  ASSERT_EQ(state.oldest.messages.size(), 1u);
  EXPECT_EQ(state.oldest.messages[0].peer, 8);
  EXPECT_EQ(state.oldest.messages[0].number, 1u);
  EXPECT_EQ(state.oldest.collective, 0u);
  EXPECT_EQ(state.latest.collective, 1u);
}

TEST(LedgerDeathTest, NumbersMustNotSkip) {
  Ledger ledger;
  const int group = ledger.AddGroup("tp", {0, 1});
  ledger.Issued(group, 1, "all_reduce");
  EXPECT_DEATH(ledger.Issued(group, 3, "all_gather"), "all_gather #3 on group tp after #1");
}

TEST(Ledger, IssuingPollingAndReadingAtOnce) {
  Ledger ledger;
  const int group = ledger.AddGroup("tp", {0, 1});
  constexpr uint64_t kCalls = 20000;
  std::thread issuer([&] {
    for (uint64_t sequence = 1; sequence <= kCalls; ++sequence) ledger.Issued(group, sequence, "all_reduce");
  });
  std::thread poller([&] {
    for (uint64_t done = 0; done < kCalls;) {
      const uint64_t issued = ledger.Snapshot(0).groups[0].issued;
      for (; done < issued; ++done) ledger.Done(group, done + 1);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const GroupState state = ledger.Snapshot(0).groups[0];
    ASSERT_LE(state.done, state.issued);
    if (state.oldest.sequence != 0) {
      ASSERT_EQ(state.oldest.sequence, state.done + 1);
    }
  }
  issuer.join();
  poller.join();
  EXPECT_EQ(ledger.Snapshot(0).groups[0].done, kCalls);
}

}  // namespace
}  // namespace trireme
