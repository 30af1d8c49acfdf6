// The verifier must refuse: each test takes a valid table, breaks one thing, and checks the reported fault.
#include "parallel/schedule/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "parallel/schedule/schedules.h"

namespace trireme {
namespace {

using Steps = std::vector<Step>;

testing::AssertionResult Says(const std::string& fault, const std::string& wanted) {
  if (fault.find(wanted) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the fault is '" << fault << "'; wanted in it '" << wanted << "'";
}

std::string FaultOf(const Schedule& schedule) { return FindFault(schedule).value_or("none"); }

// The first step that contains such an action.
Steps::iterator StepOf(Steps& steps, ActionKind kind, int micro_batch) {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
    return std::any_of(step.begin(), step.end(),
                       [&](const Action& action) { return action.kind == kind && action.micro_batch == micro_batch; });
  });
  TRIREME_CHECK(found != steps.end()) << NameOf(kind) << " " << micro_batch;
  return found;
}

void Drop(Steps& steps, ActionKind kind, int micro_batch) {
  const auto step = StepOf(steps, kind, micro_batch);
  std::erase_if(*step, [&](const Action& a) { return a.kind == kind && a.micro_batch == micro_batch; });
  if (step->empty()) steps.erase(step);
}

class Verifier : public testing::Test {
 protected:
  Schedule schedule_ = MakeSchedule("1f1b", {3, 5, 1}, 0);
  Schedule split_ = MakeSchedule("zero_bubble", {3, 5, 1}, 2);
  Schedule sharded_ = MakeSchedule("interleaved", {2, 4, 3}, 3);
};

TEST_F(Verifier, AcceptsThemUnbroken) {
  for (const Schedule& schedule : {schedule_, split_, sharded_}) EXPECT_EQ(FaultOf(schedule), "none");
}

TEST_F(Verifier, ForwardMissing) {
  Drop(schedule_.ranks[2], ActionKind::kForward, 4);
  EXPECT_TRUE(Says(FaultOf(schedule_), "B4.0: comes before its forward"));
}

TEST_F(Verifier, ForwardTwice) {
  Steps& steps = schedule_.ranks[0];
  steps.push_back(*StepOf(steps, ActionKind::kForward, 1));
  EXPECT_TRUE(Says(FaultOf(schedule_), "F1.0: runs twice"));
}

TEST_F(Verifier, BackwardTwice) {
  Steps& steps = schedule_.ranks[0];
  steps.push_back(*StepOf(steps, ActionKind::kBackward, 1));
  EXPECT_TRUE(Says(FaultOf(schedule_), "B1.0: runs twice"));
}

TEST_F(Verifier, BackwardMissing) {
  Drop(schedule_.ranks[0], ActionKind::kBackward, 4);
  EXPECT_TRUE(Says(FaultOf(schedule_), "rank 0"));
  EXPECT_NE(FaultOf(schedule_), "none");
}

TEST_F(Verifier, WeightMissing) {
  Drop(split_.ranks[1], ActionKind::kReduceGradients, 0);
  Drop(split_.ranks[1], ActionKind::kBackwardWeight, 0);
  EXPECT_TRUE(Says(FaultOf(split_), "rank 1: micro batch 0, chunk 0: has no weight gradient"));
}

TEST_F(Verifier, WeightBeforeItsInput) {
  Steps& steps = split_.ranks[0];
  std::swap(*StepOf(steps, ActionKind::kBackwardInput, 2), *StepOf(steps, ActionKind::kBackwardWeight, 2));
  EXPECT_TRUE(Says(FaultOf(split_), "W2.0: comes before its input gradient"));
}

TEST_F(Verifier, ReceiveDropped) {
  Drop(schedule_.ranks[1], ActionKind::kRecvForward, 2);
  EXPECT_TRUE(Says(FaultOf(schedule_), "F2.0: its input is not available"));
}

TEST_F(Verifier, SendDropped) {
  Drop(schedule_.ranks[1], ActionKind::kSendBackward, 2);
  EXPECT_TRUE(Says(FaultOf(schedule_), "micro batch 2, chunk 0: its gradient is never sent"));
}

TEST_F(Verifier, BothEndsDroppedStillNamesTheReceiver) {
  Drop(schedule_.ranks[0], ActionKind::kSendForward, 2);
  Drop(schedule_.ranks[1], ActionKind::kRecvForward, 2);
  EXPECT_NE(FaultOf(schedule_), "none");
}

TEST_F(Verifier, SendBeforeItIsMade) {
  Steps& steps = schedule_.ranks[0];
  std::swap(*StepOf(steps, ActionKind::kForward, 0), *StepOf(steps, ActionKind::kSendForward, 0));
  EXPECT_TRUE(Says(FaultOf(schedule_), "send F0.0 to 1: comes before what it sends is computed"));
}

TEST_F(Verifier, WrongPeer) {
  StepOf(schedule_.ranks[0], ActionKind::kSendForward, 0)->front().peer = 2;
  EXPECT_TRUE(Says(FaultOf(schedule_), "send F0.0 to 2: its other end, stage 1, is on rank 1"));
}

TEST_F(Verifier, MessageFromBeyondTheEnds) {
  schedule_.ranks[0].insert(schedule_.ranks[0].begin(), {{ActionKind::kRecvForward, 0, 0, 1}});
  EXPECT_TRUE(Says(FaultOf(schedule_), "there is no stage at its other end"));
}

TEST_F(Verifier, MicroBatchOutOfRange) {
  StepOf(schedule_.ranks[0], ActionKind::kForward, 4)->front().micro_batch = 5;
  EXPECT_TRUE(Says(FaultOf(schedule_), "no such micro batch or chunk; there are 5 and 1"));
}

TEST_F(Verifier, RankMissing) {
  schedule_.ranks.pop_back();
  EXPECT_TRUE(Says(FaultOf(schedule_), "has 2 ranks; its placement has 3"));
}

TEST_F(Verifier, TwoMessagesToOnePeerInABatch) {
  Steps& steps = schedule_.ranks[0];
  const Action second = {ActionKind::kSendForward, 1, 0, 1};
  StepOf(steps, ActionKind::kSendForward, 0)->push_back(second);
  EXPECT_TRUE(Says(FaultOf(schedule_), "two messages to rank 1 in one batch"));
}

TEST_F(Verifier, TwoMessagesFromOnePeerInABatch) {
  const Action second = {ActionKind::kRecvForward, 1, 0, 0};
  StepOf(schedule_.ranks[1], ActionKind::kRecvForward, 0)->push_back(second);
  EXPECT_TRUE(Says(FaultOf(schedule_), "two messages from rank 0 in one batch"));
}

TEST_F(Verifier, ComputeInABatch) {
  StepOf(schedule_.ranks[0], ActionKind::kSendForward, 0)->push_back({.kind = ActionKind::kForward});
  EXPECT_TRUE(Says(FaultOf(schedule_), "a batch holds messages only"));
}

TEST_F(Verifier, EmptyStep) {
  schedule_.ranks[1].emplace_back();
  EXPECT_TRUE(Says(FaultOf(schedule_), "an empty step"));
}

// All forwards of rank 0 come before its sends, so that two of them can be swapped.
TEST_F(Verifier, SendsSwapped) {
  Schedule all_first{"all forwards first", PlaceStages(PlacementKind::kStraight, 2, 1), 2, std::nullopt, {}};
  const auto compute = [](ActionKind kind, int i) { return Step{{.kind = kind, .micro_batch = i}}; };
  const auto message = [](ActionKind kind, int i, int peer) { return Step{{kind, i, 0, peer}}; };
  using enum ActionKind;
  all_first.ranks = {
      {compute(kForward, 0), compute(kForward, 1), message(kSendForward, 0, 1), message(kSendForward, 1, 1),
       message(kRecvBackward, 0, 1), message(kRecvBackward, 1, 1), compute(kBackward, 0), compute(kBackward, 1)},
      {message(kRecvForward, 0, 0), message(kRecvForward, 1, 0), compute(kForward, 0), compute(kForward, 1),
       compute(kBackward, 0), compute(kBackward, 1), message(kSendBackward, 0, 0), message(kSendBackward, 1, 0)}};
  ASSERT_EQ(FaultOf(all_first), "none");
  std::swap(all_first.ranks[0][2], all_first.ranks[0][3]);
  EXPECT_TRUE(Says(FaultOf(all_first),
                   "from rank 0 to rank 1 do not match in order: rank 0 at step 2 has "
                   "'send F1.0 to 1', rank 1 at step 0 has 'recv F0.0 from 0'"));
}

// 1F1B as one would write it by hand: receive, compute, send, one after the other. With `batched`, adjacent
// messages are posted together.
Schedule ByHand(int ranks, int micro_batches, bool batched) {
  const ComputeOrder order = MakeComputeOrder("1f1b", {ranks, micro_batches, 1});
  Schedule schedule{"by hand", order.placement, micro_batches, std::nullopt, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    Steps steps;
    const auto message = [&](ActionKind kind, int micro_batch, int peer) {
      if (peer < 0 || peer >= ranks) return;
      const bool joins = batched && !steps.empty() && steps.back().front().is_message();
      if (!joins) steps.emplace_back();
      steps.back().push_back({kind, micro_batch, 0, peer});
    };
    for (const Action& action : order.ranks[rank]) {
      const bool forward = action.kind == ActionKind::kForward;
      const int before = forward ? rank - 1 : rank + 1;
      const int after = forward ? rank + 1 : rank - 1;
      message(forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward, action.micro_batch, before);
      steps.push_back({action});
      message(forward ? ActionKind::kSendForward : ActionKind::kSendBackward, action.micro_batch, after);
    }
    schedule.ranks.push_back(steps);
  }
  return schedule;
}

TEST(Deadlock, OneFOneBByHandHangsUnlessNeighboursArePostedTogether) {
  int hangs = 0;
  for (int ranks = 2; ranks <= 8; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
      if (FaultOf(ByHand(ranks, micro_batches, false)).starts_with("deadlock")) ++hangs;
      EXPECT_EQ(FaultOf(ByHand(ranks, micro_batches, true)), "none") << ranks << " " << micro_batches;
    }
  }
  EXPECT_EQ(hangs, 133);  // all of the 140 except those with a single micro batch
}

TEST(Deadlock, ReportsWhoWaitsForWhom) {
  EXPECT_EQ(FaultOf(ByHand(2, 2, false)),
            "deadlock; rank 0 at step 3 waits for rank 1 ('send F1.0 to 1'), which is at step 3 {send B0.0 to "
            "0}"
            "; rank 1 at step 3 waits for rank 0 ('send B0.0 to 0'), which is at step 3 {send F1.0 to 1}");
}

TEST_F(Verifier, PartnerThatHasEnded) {
  Drop(schedule_.ranks[0], ActionKind::kReduceGradients, 0);
  schedule_.zero.reset();
  EXPECT_TRUE(Says(FaultOf(schedule_), "the table is marked as having no parameter actions"));
  for (Steps& steps : schedule_.ranks) {
    std::erase_if(steps, [](const Step& step) { return step[0].kind == ActionKind::kReduceGradients; });
  }
  ASSERT_EQ(FaultOf(schedule_), "none");
  Schedule alone = schedule_;
  alone.ranks[1].clear();
  EXPECT_TRUE(Says(*FindMessageFault(alone),
                   "rank 0 at step 1 waits for rank 1 ('send F0.0 to 1'), which "
                   "has ended"));
}

TEST_F(Verifier, ReduceMissing) {
  Drop(schedule_.ranks[1], ActionKind::kReduceGradients, 0);
  EXPECT_TRUE(Says(FaultOf(schedule_), "rank 1: gradients of chunk 0 are not reduced"));
}

TEST_F(Verifier, ReduceBeforeTheLastWeightGradient) {
  Steps& steps = schedule_.ranks[1];
  steps.insert(StepOf(steps, ActionKind::kBackward, 3) + 1, {{.kind = ActionKind::kReduceGradients}});
  EXPECT_TRUE(Says(FaultOf(schedule_), "reduce .0: comes before the last weight gradient"));
}

TEST_F(Verifier, ReduceLeftOutBetweenMicroBatchesUnderZero2) {
  Drop(split_.ranks[0], ActionKind::kReduceGradients, 0);
  EXPECT_TRUE(Says(FaultOf(split_), "the previous gradients are not reduced"));
}

TEST_F(Verifier, GatherMissing) {
  Drop(sharded_.ranks[1], ActionKind::kGatherParameters, 0);
  EXPECT_TRUE(Says(FaultOf(sharded_), "F0.0: its parameters are not gathered"));
}

TEST_F(Verifier, FreeMissing) {
  Steps& steps = sharded_.ranks[0];
  ASSERT_EQ(steps.back().front().kind, ActionKind::kFreeParameters);
  const int chunk = steps.back().front().chunk;
  steps.pop_back();
  EXPECT_TRUE(Says(FaultOf(sharded_), Concat("parameters of chunk ", chunk, " are never freed")));
}

TEST_F(Verifier, GatherTwiceAndFreeTwice) {
  Schedule twice = sharded_;
  twice.ranks[0].insert(twice.ranks[0].begin(), twice.ranks[0].front());
  EXPECT_TRUE(Says(FaultOf(twice), "they are already gathered"));
  sharded_.ranks[0].push_back(sharded_.ranks[0].back());
  EXPECT_TRUE(Says(FaultOf(sharded_), "they are not gathered"));
}

TEST_F(Verifier, GatherUnderALowerZero) {
  schedule_.ranks[0].insert(schedule_.ranks[0].begin(), {{.kind = ActionKind::kGatherParameters}});
  EXPECT_TRUE(Says(FaultOf(schedule_), "parameters are not sharded with zero 0"));
}

// Whichever single step is removed from a valid table, the verifier detects it.
TEST(Mutation, EveryStepLeftOutIsMissed) {
  for (const std::string& name : ScheduleNames()) {
    const Schedule whole = MakeSchedule(name, {3, 7, name == "interleaved" ? 2 : 1}, 3);
    for (size_t rank = 0; rank < whole.ranks.size(); ++rank) {
      for (size_t i = 0; i < whole.ranks[rank].size(); ++i) {
        Schedule broken = whole;
        broken.ranks[rank].erase(broken.ranks[rank].begin() + static_cast<long>(i));
        EXPECT_NE(FaultOf(broken), "none") << name << ", rank " << rank << ", step " << i;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
