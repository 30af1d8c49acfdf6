// Every collective over every data path, with threads as ranks: sizes from zero to beyond a ring, odd ones
// included, in place and not. Values encode where they come from, so a misplaced element is detected.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/twin/hccl/datapath_ranks.h"

namespace {

using twin::Operation;
using twin::OperationKind;
using twin_test::kRankCounts;
using twin_test::Memory;
using twin_test::Ranks;
using Values = std::vector<int32_t>;

struct Case {
  uint32_t ranks;
  Memory memory;
};

class CollectiveTest : public testing::TestWithParam<Case> {
 protected:
  Ranks ranks_{GetParam().ranks, GetParam().memory};
  const uint32_t size_ = GetParam().ranks;
  // The last exceeds a ring for every slice; with more ranks it would only cost time.
  const std::vector<uint64_t> counts_ = {0, 1, 7, 100, 1031, 2049, size_ <= 3 ? 300'003u : 70'001u};
};

int32_t Value(uint32_t rank, uint64_t index) { return static_cast<int32_t>(rank * 10'000'019 + index * 3); }

Values Numbers(uint32_t rank, uint64_t count) {
  Values values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = Value(rank, i);
  return values;
}

int32_t SumOverRanks(uint32_t size, uint64_t index) {
  uint32_t sum = 0;
  for (uint32_t rank = 0; rank < size; ++rank) sum += static_cast<uint32_t>(Value(rank, index));
  return static_cast<int32_t>(sum);
}

Operation Describe(OperationKind kind, const Values& send, Values& recv, uint64_t count, uint32_t root = 0) {
  Operation operation;
  operation.kind = kind;
  operation.send = send.data();
  operation.recv = recv.data();
  operation.count = count;
  operation.type = HCCL_DATA_TYPE_INT32;
  operation.root = root;
  return operation;
}

TEST_P(CollectiveTest, AllReduce) {
  for (const bool in_place : {false, true})
    for (const uint64_t count : counts_)
      ranks_.Run([&](uint32_t rank) {
        Values send = Numbers(rank, count), recv(count, -1);
        Values& out = in_place ? send : recv;
        ASSERT_EQ(ranks_.Do(rank, Describe(OperationKind::kAllReduce, send, out, count)), ACL_SUCCESS);
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], SumOverRanks(size_, i)) << i << " of " << count;
        if (in_place) return;
        ASSERT_EQ(send, Numbers(rank, count)) << "the input was modified";
      });
}

TEST_P(CollectiveTest, Reduce) {
  for (const bool in_place : {false, true})
    for (uint32_t root = 0; root < size_; root += 2)
      for (const uint64_t count : counts_)
        ranks_.Run([&](uint32_t rank) {
          Values send = Numbers(rank, count), recv(count, -1);
          Values& out = in_place && rank == root ? send : recv;
          ASSERT_EQ(ranks_.Do(rank, Describe(OperationKind::kReduce, send, out, count, root)), ACL_SUCCESS);
          for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], rank == root ? SumOverRanks(size_, i) : -1) << i;
        });
}

TEST_P(CollectiveTest, Broadcast) {
  for (uint32_t root = 0; root < size_; root += 2)
    for (const uint64_t count : counts_)
      ranks_.Run([&](uint32_t rank) {
        Values values = Numbers(rank, count);
        ASSERT_EQ(ranks_.Do(rank, Describe(OperationKind::kBroadcast, values, values, count, root)), ACL_SUCCESS);
        ASSERT_EQ(values, Numbers(root, count));
      });
}

TEST_P(CollectiveTest, AllGather) {
  for (const bool in_place : {false, true})
    for (const uint64_t count : counts_)
      ranks_.Run([&](uint32_t rank) {
        Values send = Numbers(rank, count), recv(size_ * count, -1);
        if (in_place) std::copy(send.begin(), send.end(), recv.begin() + rank * count);
        Operation operation = Describe(OperationKind::kAllGather, send, recv, count);
        if (in_place) operation.send = recv.data() + rank * count;
        ASSERT_EQ(ranks_.Do(rank, operation), ACL_SUCCESS);
        for (uint32_t from = 0; from < size_; ++from)
          for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(recv[from * count + i], Value(from, i)) << from << " " << i;
      });
}

TEST_P(CollectiveTest, AllGatherV) {
  for (const uint64_t count : counts_)
    ranks_.Run([&](uint32_t rank) {
      // Blocks of different sizes, one of them empty, in reversed order with a gap of one between them.
      Operation operation;
      std::vector<uint64_t> counts, offsets(size_);
      for (uint32_t r = 0; r < size_; ++r) counts.push_back(r == 1 ? 0 : count + r);
      uint64_t end = 0;
      for (uint32_t r = size_; r-- > 0; end += counts[r] + 1) offsets[r] = end;
      Values send = Numbers(rank, counts[rank]), recv(end, -1);
      operation = Describe(OperationKind::kAllGatherV, send, recv, counts[rank]);
      operation.recv_counts = counts;
      operation.recv_offsets = offsets;
      ASSERT_EQ(ranks_.Do(rank, operation), ACL_SUCCESS);
      for (uint32_t r = 0; r < size_; ++r) {
        for (uint64_t i = 0; i < counts[r]; ++i) ASSERT_EQ(recv[offsets[r] + i], Value(r, i));
        ASSERT_EQ(recv[offsets[r] + counts[r]], -1) << "wrote into the gap";
      }
    });
}

TEST_P(CollectiveTest, ReduceScatter) {
  for (const int placing : {0, 1, 2})  // separate, over the rank's own block, over the buffer's start
    for (const uint64_t count : counts_)
      ranks_.Run([&](uint32_t rank) {
        Values send = Numbers(rank, size_ * count), recv(count, -1);
        Operation operation = Describe(OperationKind::kReduceScatter, send, recv, count);
        if (placing == 1) operation.recv = send.data() + rank * count;
        if (placing == 2) operation.recv = send.data();
        ASSERT_EQ(ranks_.Do(rank, operation), ACL_SUCCESS);
        const auto* out = static_cast<const int32_t*>(operation.recv);
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], SumOverRanks(size_, rank * count + i)) << placing;
      });
}

TEST_P(CollectiveTest, ReduceScatterV) {
  for (const uint64_t count : counts_)
    ranks_.Run([&](uint32_t rank) {
      std::vector<uint64_t> counts, offsets;
      uint64_t end = 0;
      for (uint32_t r = 0; r < size_; ++r) {
        counts.push_back(r == 1 ? 0 : count + r);
        offsets.push_back(end);
        end += counts[r] + 2;
      }
      Values send = Numbers(rank, end), recv(counts[rank], -1);
      Operation operation = Describe(OperationKind::kReduceScatterV, send, recv, counts[rank]);
      operation.send_counts = counts;
      operation.send_offsets = offsets;
      ASSERT_EQ(ranks_.Do(rank, operation), ACL_SUCCESS);
      for (uint64_t i = 0; i < counts[rank]; ++i) ASSERT_EQ(recv[i], SumOverRanks(size_, offsets[rank] + i));
    });
}

TEST_P(CollectiveTest, Scatter) {
  for (const bool in_place : {false, true})
    for (uint32_t root = 0; root < size_; root += 2)
      for (const uint64_t count : counts_)
        ranks_.Run([&](uint32_t rank) {
          Values send = Numbers(rank, size_ * count), recv(count, -1);
          Operation operation = Describe(OperationKind::kScatter, send, recv, count, root);
          if (in_place && rank == root) operation.recv = send.data();
          ASSERT_EQ(ranks_.Do(rank, operation), ACL_SUCCESS);
          const auto* out = static_cast<const int32_t*>(operation.recv);
          for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], Value(root, rank * count + i)) << i;
        });
}

TEST_P(CollectiveTest, AllToAll) {
  for (const bool in_place : {false, true})
    for (const uint64_t count : counts_)
      ranks_.Run([&](uint32_t rank) {
        Values send = Numbers(rank, size_ * count), recv(size_ * count, -1);
        Values& out = in_place ? send : recv;
        ASSERT_EQ(ranks_.Do(rank, Describe(OperationKind::kAllToAll, send, out, count)), ACL_SUCCESS);
        for (uint32_t from = 0; from < size_; ++from)
          for (uint64_t i = 0; i < count; ++i)
            ASSERT_EQ(out[from * count + i], Value(from, rank * count + i)) << from << " " << i;
      });
}

// Elements that `from` sends to `to`: for some pairs none, for some many, so that data paths are mixed.
uint64_t Amount(uint32_t from, uint32_t to, uint64_t count) {
  return (from + to) % 3 == 1 ? 0 : (from + 2 * to) % 4 == 0 ? count : count / 50 + from;
}

TEST_P(CollectiveTest, AllToAllV) {
  for (const uint64_t count : counts_)
    ranks_.Run([&](uint32_t rank) {
      Operation operation;
      uint64_t send_end = 0, recv_end = 0;
      for (uint32_t r = 0; r < size_; ++r) {
        operation.send_counts.push_back(Amount(rank, r, count));
        operation.send_offsets.push_back(send_end);
        operation.recv_counts.push_back(Amount(r, rank, count));
        operation.recv_offsets.push_back(recv_end + 1);
        send_end += operation.send_counts[r] + 3;
        recv_end += operation.recv_counts[r] + 1;
      }
      Values send = Numbers(rank, send_end), recv(recv_end + 1, -1);
      operation.kind = OperationKind::kAllToAllV;
      operation.send = send.data();
      operation.recv = recv.data();
      operation.type = HCCL_DATA_TYPE_INT32;
      ASSERT_EQ(ranks_.Do(rank, operation), ACL_SUCCESS);
      for (uint32_t from = 0; from < size_; ++from) {
        uint64_t there = 0;
        for (uint32_t r = 0; r < rank; ++r) there += Amount(from, r, count) + 3;
        ASSERT_EQ(recv[operation.recv_offsets[from] - 1], -1) << "wrote into the gap";
        for (uint64_t i = 0; i < operation.recv_counts[from]; ++i)
          ASSERT_EQ(recv[operation.recv_offsets[from] + i], Value(from, there + i));
      }
    });
}

TEST_P(CollectiveTest, NoRankPassesTheBarrierBeforeAllHaveReachedIt) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<uint32_t> arrived{0};
    ranks_.Run([&](uint32_t rank) {
      Operation operation;
      operation.kind = OperationKind::kBarrier;
      ++arrived;
      ASSERT_EQ(ranks_.Do(rank, operation), ACL_SUCCESS);
      EXPECT_EQ(arrived.load(), size_);
    });
  }
}

// Many operations without a pause: a slot or a ring reused too early would show.
TEST_P(CollectiveTest, ManyInARow) {
  ranks_.Run([&](uint32_t rank) {
    for (uint64_t round = 0; round < 300; ++round) {
      const uint64_t count = round % 10 == 0 ? 5000 : round % 7;
      Values values = Numbers(rank, count);
      ASSERT_EQ(ranks_.Do(rank, Describe(OperationKind::kAllReduce, values, values, count)), ACL_SUCCESS);
      for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], SumOverRanks(size_, i));
      Values root = Numbers(rank, count);
      const auto from = static_cast<uint32_t>(round % size_);
      ASSERT_EQ(ranks_.Do(rank, Describe(OperationKind::kBroadcast, root, root, count, from)), ACL_SUCCESS);
      ASSERT_EQ(root, Numbers(from, count));
    }
  });
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Memory memory : {Memory::kShared, Memory::kPrivate, Memory::kRemote})
    for (const uint32_t ranks : kRankCounts) cases.push_back({ranks, memory});
  for (const uint32_t ranks : {3u, 4u}) cases.push_back({ranks, Memory::kMixed});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ways, CollectiveTest, testing::ValuesIn(Cases()), [](const auto& info) {
  return twin_test::Name(info.param.memory) + std::to_string(info.param.ranks);
});

}  // namespace
