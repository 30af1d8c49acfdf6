// Invalid programs: members that disagree, members that never arrive, concurrent calls, operations of one
// group on two streams. Each must end in an error that says who and what.
#include <gtest/gtest.h>

#include <vector>

#include "tests/twin/hccl/datapath_ranks.h"
#include "twin/hccl/api/issue.h"
#include "twin/hccl/failure.h"

namespace {

using twin::Message;
using twin::Operation;
using twin::OperationKind;
using twin_test::Memory;
using twin_test::Ranks;

constexpr uint32_t kRanks = 3;

class StrictnessTest : public testing::TestWithParam<Memory> {
 protected:
  // Runs what `describe` returns for each rank; all must fail with a message that contains each of `words`.
  void ExpectAllRefuse(const std::function<Operation(uint32_t)>& describe, const std::vector<std::string>& words) {
    Ranks ranks(kRanks, GetParam());
    ranks.Run([&](uint32_t rank) {
      EXPECT_EQ(ranks.Do(rank, describe(rank)), ACL_ERROR_RT_AICORE_EXCEPTION);
      EXPECT_EQ(ranks.group(rank).failure(), HCCL_E_PARA);
      const std::string text = ranks.group(rank).failure_text();
      for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
    });
  }

  Operation Sum(uint64_t count) {
    Operation operation;
    operation.kind = OperationKind::kAllReduce;
    operation.send = operation.recv = buffer_.data();
    operation.count = count;
    operation.type = HCCL_DATA_TYPE_INT32;
    return operation;
  }

  std::vector<int32_t> buffer_ = std::vector<int32_t>(100'000);
};

TEST_P(StrictnessTest, DifferentCounts) {
  for (const uint64_t count : {10u, 90'000u})
    ExpectAllRefuse(
        [&](uint32_t rank) { return Sum(rank == 2 ? count + 1 : count); },
        {"HcclAllReduce #1", "rank 0", "rank 2", "count " + std::to_string(count), std::to_string(count + 1)});
}

TEST_P(StrictnessTest, DifferentTypes) {
  ExpectAllRefuse(
      [&](uint32_t rank) {
        Operation operation = Sum(10);
        if (rank == 1) operation.type = HCCL_DATA_TYPE_FP32;
        return operation;
      },
      {"rank 0 passed int32", "rank 1 passed fp32"});
}

TEST_P(StrictnessTest, DifferentReductions) {
  ExpectAllRefuse(
      [&](uint32_t rank) {
        Operation operation = Sum(10);
        if (rank == 1) operation.reduction = HCCL_REDUCE_MAX;
        return operation;
      },
      {"rank 0 passed sum", "rank 1 passed max"});
}

TEST_P(StrictnessTest, DifferentRoots) {
  ExpectAllRefuse(
      [&](uint32_t rank) {
        Operation operation = Sum(10);
        operation.kind = OperationKind::kBroadcast;
        operation.root = rank == 2 ? 1 : 0;
        return operation;
      },
      {"rank 0 passed root 0", "rank 2 passed root 1"});
}

TEST_P(StrictnessTest, DifferentCalls) {
  ExpectAllRefuse(
      [&](uint32_t rank) {
        Operation operation = Sum(10);
        if (rank == 1) operation.kind = OperationKind::kAllGather;
        return operation;
      },
      {"rank 0 called HcclAllReduce", "rank 1 called HcclAllGather"});
}

TEST_P(StrictnessTest, AllToAllVCountsThatDoNotMatch) {
  ExpectAllRefuse(
      [&](uint32_t rank) {
        Operation operation = Sum(0);
        operation.kind = OperationKind::kAllToAllV;
        operation.send_counts.assign(kRanks, 4);
        operation.recv_counts.assign(kRanks, 4);
        operation.send_offsets = operation.recv_offsets = {0, 4, 8};
        if (rank == 1) operation.recv_counts[2] = 5;
        return operation;
      },
      {"rank 2 sends 4 elements to rank 1", "rank 1 expects 5"});
}

TEST_P(StrictnessTest, AllGatherVCountsThatDoNotMatch) {
  ExpectAllRefuse(
      [&](uint32_t rank) {
        Operation operation = Sum(4);
        operation.kind = OperationKind::kAllGatherV;
        operation.recv_counts.assign(kRanks, 4);
        operation.recv_offsets = {0, 4, 8};
        if (rank == 0) operation.count = 3;
        return operation;
      },
      {"rank 0 sends 3 elements", "expects 4"});
}

TEST_P(StrictnessTest, SenderAndReceiverDisagree) {
  Ranks ranks(2, GetParam());
  ranks.Run([&](uint32_t rank) {
    Operation operation;
    operation.kind = rank == 0 ? OperationKind::kSend : OperationKind::kReceive;
    operation.messages = {{rank == 0, 1 - rank, buffer_.data(), rank == 0 ? 10u : 12u, HCCL_DATA_TYPE_FP32}};
    EXPECT_EQ(ranks.Do(rank, operation), ACL_ERROR_RT_AICORE_EXCEPTION);
    const std::string text = ranks.group(rank).failure_text();
    EXPECT_NE(text.find("rank 0 sends 10 x fp32"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1 expects 12 x fp32"), std::string::npos) << text;
  });
}

TEST_P(StrictnessTest, AMissingRankIsNamed) {
  Ranks ranks(kRanks, GetParam(), 0.3);
  ranks.Run([&](uint32_t rank) {
    if (rank == 1) return;
    EXPECT_EQ(ranks.Do(rank, Sum(10)), ACL_ERROR_RT_AICORE_TIMEOUT);
    EXPECT_EQ(ranks.group(rank).failure(), HCCL_E_TIMEOUT);
    const std::string text = ranks.group(rank).failure_text();
    EXPECT_NE(text.find("HcclAllReduce #1"), std::string::npos) << text;
    EXPECT_NE(text.find("for rank 1"), std::string::npos) << text;
    EXPECT_EQ(text.find("for rank 1, rank 2"), std::string::npos) << text;
  });
}

TEST_P(StrictnessTest, AFailureOfTheGroupEndsAWait) {
  Ranks ranks(2, GetParam());
  ranks.Run([&](uint32_t rank) {
    if (rank == 1) return ranks.group(0).Fail(HCCL_E_REMOTE, "rank 1 is gone");
    EXPECT_EQ(ranks.Do(0, Sum(10)), 507057);
    EXPECT_NE(ranks.group(0).failure_text().find("rank 1 is gone"), std::string::npos);
  });
}

TEST_P(StrictnessTest, ARankThatHasLeftIsNotWaitedFor) {
  Ranks ranks(2, GetParam());
  ranks.Run([&](uint32_t rank) {
    if (rank == 1) return ranks.group(0).MarkLeft(1);
    if (GetParam() == Memory::kRemote) return;  // a socket that is still open may yet deliver something
    EXPECT_EQ(ranks.Do(0, Sum(10)), 507057);
    EXPECT_EQ(ranks.group(0).failure(), HCCL_E_REMOTE);
  });
}

TEST_P(StrictnessTest, TwoOperationsOfAGroupAtOnce) {
  Ranks ranks(2, GetParam());
  Operation first = Sum(10), second = Sum(10);
  ranks.group(0).data_path->Begin(first);
  EXPECT_EQ(ranks.Do(0, second), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_NE(ranks.group(0).failure_text().find("must be serialised"), std::string::npos);
}

TEST(IssueGuardTest, ASecondCallOnTheDeviceNamesBoth) {
  const twin::IssueGuard first(5, "HcclAllReduce");
  const twin::IssueGuard other_device(6, "HcclSend");
  try {
    const twin::IssueGuard second(5, "HcclBroadcast");
    FAIL() << "two concurrent calls of one device were accepted";
  } catch (const twin::HcclFailure& failure) {
    const std::string text = failure.what();
    EXPECT_NE(text.find("HcclAllReduce"), std::string::npos) << text;
    EXPECT_NE(text.find("HcclBroadcast"), std::string::npos) << text;
    EXPECT_NE(text.find("device 5"), std::string::npos) << text;
  }
}

TEST(IssueGuardTest, SerialCallsAreAccepted) {
  {
    const twin::IssueGuard first(5, "HcclAllReduce");
  }
  EXPECT_NO_THROW(twin::IssueGuard(5, "HcclBroadcast"));
}

INSTANTIATE_TEST_SUITE_P(Ways, StrictnessTest, testing::Values(Memory::kShared, Memory::kPrivate, Memory::kRemote),
                         [](const auto& info) { return twin_test::Name(info.param); });

}  // namespace
