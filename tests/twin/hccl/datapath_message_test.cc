// Sends, receives and batches over every data path; that a message is a rendezvous; and that the paths agree
// bit for bit.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/twin/hccl/datapath_ranks.h"

namespace {

using twin::Message;
using twin::Operation;
using twin::OperationKind;
using twin_test::kRankCounts;
using twin_test::Memory;
using twin_test::Ranks;
using Values = std::vector<int32_t>;

class MessageTest : public testing::TestWithParam<Memory> {};

Values Numbers(uint32_t from, uint32_t to, uint64_t count) {
  Values values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(from * 1'000'003 + to * 10'007 + i * 5);
  return values;
}

Message To(uint32_t peer, Values& values) { return {true, peer, values.data(), values.size(), HCCL_DATA_TYPE_INT32}; }
Message From(uint32_t peer, Values& values) {
  return {false, peer, values.data(), values.size(), HCCL_DATA_TYPE_INT32};
}

Operation Of(OperationKind kind, std::vector<Message> messages) {
  Operation operation;
  operation.kind = kind;
  operation.messages = std::move(messages);
  return operation;
}

const uint64_t kCounts[] = {0, 1, 999, 70'001, 400'003};

TEST_P(MessageTest, SendMeetsReceive) {
  Ranks ranks(3, GetParam());
  for (const uint64_t count : kCounts)
    ranks.Run([&](uint32_t rank) {  // 0 to 1 to 2
      Values in(count), out = Numbers(rank, rank + 1, count);
      if (rank > 0) {
        ASSERT_EQ(ranks.Do(rank, Of(OperationKind::kReceive, {From(rank - 1, in)})), ACL_SUCCESS);
        ASSERT_EQ(in, Numbers(rank - 1, rank, count));
      }
      if (rank == 2) return;
      ASSERT_EQ(ranks.Do(rank, Of(OperationKind::kSend, {To(rank + 1, out)})), ACL_SUCCESS);
    });
}

TEST_P(MessageTest, BatchExchangesWithEveryoneAtOnce) {
  for (const uint32_t size : kRankCounts) {
    if (size == 1) continue;
    Ranks ranks(size, GetParam());
    for (const uint64_t count : kCounts)
      ranks.Run([&](uint32_t rank) {
        std::vector<Values> in(size), out(size);
        std::vector<Message> messages;
        for (uint32_t peer = 0; peer < size; ++peer) {
          if (peer == rank) continue;
          in[peer].resize(count + peer);
          out[peer] = Numbers(rank, peer, count + rank);
          // Receives first on some ranks, sends first on others: the order must not matter.
          messages.push_back(rank % 2 ? From(peer, in[peer]) : To(peer, out[peer]));
          messages.push_back(rank % 2 ? To(peer, out[peer]) : From(peer, in[peer]));
        }
        ASSERT_EQ(ranks.Do(rank, Of(OperationKind::kBatch, messages)), ACL_SUCCESS);
        for (uint32_t peer = 0; peer < size; ++peer) {
          if (peer == rank) continue;
          ASSERT_EQ(in[peer], Numbers(peer, rank, count + peer)) << peer;
        }
      });
  }
}

TEST_P(MessageTest, ManyInARowBetweenCollectives) {
  Ranks ranks(2, GetParam());
  ranks.Run([&](uint32_t rank) {
    for (uint32_t round = 0; round < 200; ++round) {
      const uint64_t count = round % 20 == 0 ? 20'000 : round % 5;
      Values out = Numbers(rank, round, count), in(count);
      ASSERT_EQ(ranks.Do(rank, Of(OperationKind::kBatch, {To(1 - rank, out), From(1 - rank, in)})), ACL_SUCCESS);
      ASSERT_EQ(in, Numbers(1 - rank, round, count));
      Operation sum;
      sum.kind = OperationKind::kAllReduce;
      sum.send = sum.recv = in.data();
      sum.count = count;
      sum.type = HCCL_DATA_TYPE_INT32;
      ASSERT_EQ(ranks.Do(rank, sum), ACL_SUCCESS);
    }
  });
}

TEST_P(MessageTest, SendWaitsForItsReceive) {
  Ranks ranks(2, GetParam());
  std::atomic<bool> receiving{false};
  ranks.Run([&](uint32_t rank) {
    Values values(3);
    if (rank == 0) {
      ASSERT_EQ(ranks.Do(0, Of(OperationKind::kSend, {To(1, values)})), ACL_SUCCESS);
      EXPECT_TRUE(receiving.load()) << "the send ended before its receive began";
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      receiving = true;
      ASSERT_EQ(ranks.Do(1, Of(OperationKind::kReceive, {From(0, values)})), ACL_SUCCESS);
    }
  });
}

TEST_P(MessageTest, UnmatchedOrderBlocksUntilTheTimeout) {
  Ranks ranks(2, GetParam(), 0.3);
  ranks.Run([&](uint32_t rank) {
    Values values(3);
    EXPECT_EQ(ranks.Do(rank, Of(OperationKind::kSend, {To(1 - rank, values)})), ACL_ERROR_RT_AICORE_TIMEOUT);
    EXPECT_EQ(ranks.group(rank).failure(), HCCL_E_TIMEOUT);
    const std::string text = ranks.group(rank).failure_text();
    EXPECT_NE(text.find("HcclSend to " + std::to_string(1 - rank) + " #1"), std::string::npos) << text;
    EXPECT_NE(text.find("rank " + std::to_string(1 - rank)), std::string::npos) << text;
  });
}

// fp32 sums depend on their order: equal bits mean equal order on every path.
TEST(WaysTest, ReductionsAreBitIdenticalOnAllPaths) {
  const uint64_t count = 50'021;
  const uint32_t size = 5;
  std::vector<std::vector<float>> results;
  for (const Memory memory : {Memory::kShared, Memory::kPrivate, Memory::kRemote, Memory::kMixed}) {
    Ranks ranks(size, memory);
    ranks.Run([&](uint32_t rank) {
      std::vector<float> values(count);
      for (uint64_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(rank * 7919 + i)) * (rank + 1);
      Operation sum;
      sum.kind = OperationKind::kAllReduce;
      sum.send = sum.recv = values.data();
      sum.count = count;
      sum.type = HCCL_DATA_TYPE_FP32;
      ASSERT_EQ(ranks.Do(rank, sum), ACL_SUCCESS);
      if (rank == 3) results.push_back(values);
    });
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

INSTANTIATE_TEST_SUITE_P(Ways, MessageTest,
                         testing::Values(Memory::kShared, Memory::kPrivate, Memory::kRemote, Memory::kMixed),
                         [](const auto& info) { return twin_test::Name(info.param); });

}  // namespace
