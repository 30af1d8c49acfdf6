// Every operation of a communicator over all ranks against its closed form; one rank alone included.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "core/device/cann_info.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr size_t kCount = 1003;

// Element i of rank r: small whole numbers, so that sums are exact.
int Value(int rank, size_t i) { return static_cast<int>((rank + 1) * (i % 7 + 1)); }

int SumOfRanks(int ranks, size_t i) { return static_cast<int>(ranks * (ranks + 1) / 2 * (i % 7 + 1)); }

template <typename T>
std::vector<T> Mine(size_t count = kCount) {
  return Generate<T>(count, [](size_t i) { return Value(World().rank(), i); });
}

template <typename T>
void ExpectAllReduceSums(DType dtype) {
  const DeviceBuffer source = ToDevice(Mine<T>());
  const DeviceBuffer target(source.bytes());
  World().AllReduce(source.data(), target.data(), kCount, dtype, ReduceOp::kSum).Wait();
  const auto wanted = Generate<T>(kCount, [](size_t i) { return SumOfRanks(World().size(), i); });
  EXPECT_EQ(ToHost<T>(target), wanted) << Name(dtype);
  EXPECT_EQ(ToHost<T>(source), Mine<T>()) << "the source was modified";
}

TEST(Collectives, AllReduceSumsEveryType) {
  ExpectAllReduceSums<float>(DType::kFp32);
  ExpectAllReduceSums<int64_t>(DType::kInt64);
  ExpectAllReduceSums<int32_t>(DType::kInt32);
  if (CannProvider() != "cuda") ExpectAllReduceSums<int16_t>(DType::kInt16);  // NCCL refuses it
  ExpectAllReduceSums<int8_t>(DType::kInt8);
}

TEST(Collectives, AllReduceInPlaceTakesMaximumMinimumAndProduct) {
  const auto reduce = [](ReduceOp op) {
    const DeviceBuffer data = ToDevice(Mine<float>());
    World().AllReduce(data.data(), data.data(), kCount, DType::kFp32, op).Wait();
    return ToHost<float>(data);
  };
  const int ranks = World().size();
  EXPECT_EQ(reduce(ReduceOp::kMax), Generate<float>(kCount, [&](size_t i) { return Value(ranks - 1, i); }));
  EXPECT_EQ(reduce(ReduceOp::kMin), Generate<float>(kCount, [&](size_t i) { return Value(0, i); }));
  EXPECT_EQ(reduce(ReduceOp::kProd), Generate<float>(kCount, [&](size_t i) {
              int product = 1;
              for (int rank = 0; rank < ranks; ++rank) product *= Value(rank, i);
              return product;
            }));
}

TEST(Collectives, AllGatherConcatenatesInRankOrder) {
  const DeviceBuffer source = ToDevice(Mine<float>());
  const DeviceBuffer target(source.bytes() * World().size());
  World().AllGather(source.data(), target.data(), kCount, DType::kFp32).Wait();
  EXPECT_EQ(ToHost<float>(target), Generate<float>(kCount * World().size(), [](size_t i) {
              return Value(static_cast<int>(i / kCount), i % kCount);
            }));
}

TEST(Collectives, ReduceScatterGivesEachRankItsPart) {
  const size_t whole = kCount * World().size();
  const DeviceBuffer source = ToDevice(Mine<float>(whole));
  const DeviceBuffer target(kCount * sizeof(float));
  World().ReduceScatter(source.data(), target.data(), kCount, DType::kFp32, ReduceOp::kSum).Wait();
  const size_t first = kCount * World().rank();
  EXPECT_EQ(ToHost<float>(target),
            Generate<float>(kCount, [&](size_t i) { return SumOfRanks(World().size(), first + i); }));
}

TEST(Collectives, AllToAllTransposes) {
  const size_t whole = kCount * World().size();
  const DeviceBuffer source = ToDevice(Mine<int64_t>(whole));
  const DeviceBuffer target(source.bytes());
  World().AllToAll(source.data(), target.data(), kCount, DType::kInt64).Wait();
  const size_t first = kCount * World().rank();
  EXPECT_EQ(ToHost<int64_t>(target), Generate<int64_t>(whole, [&](size_t i) {
              return Value(static_cast<int>(i / kCount), first + i % kCount);
            }));
}

// Rank r sends r + s + 1 elements to rank s, with gaps before and between the parts on both sides.
TEST(Collectives, AllToAllVMovesUnevenParts) {
  constexpr size_t kStride = 16, kGap = 3;
  const int rank = World().rank();
  const int ranks = World().size();
  Parts parts;  // symmetric, hence the same for both sides
  for (int other = 0; other < ranks; ++other) {
    parts.counts.push_back(rank + other + 1);
    parts.offsets.push_back(kStride * other + kGap);
  }
  const DeviceBuffer source = ToDevice(Mine<float>(kStride * ranks));
  const DeviceBuffer target = ToDevice(std::vector<float>(kStride * ranks, -1));
  World().AllToAllV(source.data(), parts, target.data(), parts, DType::kFp32).Wait();
  EXPECT_EQ(ToHost<float>(target), Generate<float>(kStride * ranks, [&](size_t i) {
              const int sender = static_cast<int>(i / kStride);
              const size_t place = i % kStride;
              const bool sent = place >= kGap && place < kGap + parts.counts[sender];
              return sent ? Value(sender, kStride * rank + place) : -1;
            }));
}

// Rank r contributes r elements: rank 0 none.
TEST(Collectives, AllGatherVAndReduceScatterVTakeUnevenAndEmptyParts) {
  const int rank = World().rank();
  const int ranks = World().size();
  Parts parts;
  size_t whole = 0;
  for (int other = 0; other < ranks; ++other) {
    parts.counts.push_back(other);
    parts.offsets.push_back(whole);
    whole += other;
  }
  const DeviceBuffer mine = ToDevice(Mine<float>(rank));
  const DeviceBuffer gathered = ToDevice(std::vector<float>(whole, -1));
  World().AllGatherV(mine.data(), rank, gathered.data(), parts, DType::kFp32).Wait();
  std::vector<float> wanted;
  for (int other = 0; other < ranks; ++other) {
    for (int i = 0; i < other; ++i) wanted.push_back(static_cast<float>(Value(other, i)));
  }
  EXPECT_EQ(ToHost<float>(gathered), wanted);

  const DeviceBuffer source = ToDevice(Mine<float>(whole));
  const DeviceBuffer part = ToDevice(std::vector<float>(rank, -1));
  World().ReduceScatterV(source.data(), parts, part.data(), rank, DType::kFp32, ReduceOp::kSum).Wait();
  EXPECT_EQ(ToHost<float>(part),
            Generate<float>(rank, [&](size_t i) { return SumOfRanks(ranks, parts.offsets[rank] + i); }));
}

TEST(Collectives, BroadcastReduceAndScatterFromEveryRoot) {
  const int rank = World().rank();
  const int ranks = World().size();
  for (int root = 0; root < ranks; ++root) {
    const DeviceBuffer data = ToDevice(Mine<float>());
    World().Broadcast(data.data(), kCount, DType::kFp32, root).Wait();
    EXPECT_EQ(ToHost<float>(data), Generate<float>(kCount, [&](size_t i) { return Value(root, i); }));

    const DeviceBuffer source = ToDevice(Mine<float>(kCount * ranks));
    const DeviceBuffer target(kCount * sizeof(float));
    World().Reduce(source.data(), target.data(), kCount, DType::kFp32, ReduceOp::kSum, root).Wait();
    if (rank == root) {
      EXPECT_EQ(ToHost<float>(target), Generate<float>(kCount, [&](size_t i) { return SumOfRanks(ranks, i); }));
    }
    World().Scatter(source.data(), target.data(), kCount, DType::kFp32, root).Wait();
    EXPECT_EQ(ToHost<float>(target), Generate<float>(kCount, [&](size_t i) { return Value(root, kCount * rank + i); }));
  }
}

TEST(Collectives, SendAndReceiveInAChain) {
  const int rank = World().rank();
  const DeviceBuffer data = ToDevice(Mine<float>());
  if (rank > 0) World().Receive(data.data(), kCount, DType::kFp32, rank - 1).Wait();
  if (rank + 1 < World().size()) World().Send(data.data(), kCount, DType::kFp32, rank + 1).Wait();
  EXPECT_EQ(ToHost<float>(data), Generate<float>(kCount, [](size_t i) { return Value(0, i); }));
}

TEST(Collectives, BatchExchangesWithBothNeighboursAtOnce) {
  const int rank = World().rank();
  const int ranks = World().size();
  const DeviceBuffer source = ToDevice(Mine<float>());
  const DeviceBuffer from_left = ToDevice(Mine<float>());
  const DeviceBuffer from_right = ToDevice(Mine<float>());
  std::vector<Transfer> batch;
  using enum Transfer::Direction;
  if (rank > 0) {
    batch.push_back({kSend, rank - 1, source.data(), kCount});
    batch.push_back({kReceive, rank - 1, from_left.data(), kCount});
  }
  if (rank + 1 < ranks) {
    batch.push_back({kReceive, rank + 1, from_right.data(), kCount});
    batch.push_back({kSend, rank + 1, source.data(), kCount});
  }
  World().BatchSendReceive(batch, DType::kFp32).Wait();
  const int left = rank > 0 ? rank - 1 : rank;
  const int right = rank + 1 < ranks ? rank + 1 : rank;
  EXPECT_EQ(ToHost<float>(from_left), Generate<float>(kCount, [&](size_t i) { return Value(left, i); }));
  EXPECT_EQ(ToHost<float>(from_right), Generate<float>(kCount, [&](size_t i) { return Value(right, i); }));
}

TEST(Collectives, CallsAreNumberedAndDoneInOrder) {
  const DeviceBuffer data = ToDevice(Mine<float>());
  std::vector<Work> works;
  for (int i = 0; i < 20; ++i) works.push_back(World().Broadcast(data.data(), kCount, DType::kFp32, 0));
  for (size_t i = 1; i < works.size(); ++i) EXPECT_EQ(works[i].sequence(), works[i - 1].sequence() + 1);
  works[10].Wait();
  for (size_t i = 0; i <= 10; ++i) EXPECT_TRUE(works[i].done()) << i;
  works.back().Wait();
  EXPECT_TRUE(works.back().done());
}

TEST(Collectives, ZeroElementsAreNotAnError) {
  World().AllReduce(nullptr, nullptr, 0, DType::kFp32, ReduceOp::kSum).Wait();
  World().Barrier().Wait();
}

TEST(Collectives, WhatHcclRefusesNamesGroupOperationAndNumber) {
  if (World().size() == 1) {
    EXPECT_NO_THROW(World().AllReduce(nullptr, nullptr, 0, DType::kFp64, ReduceOp::kSum).Wait());
    return;  // a group of one copies any type
  }
  const DeviceBuffer data(kCount * sizeof(double));
  const DType refused = CannProvider() == "cuda" ? DType::kInt16 : DType::kFp64;
  try {
    World().AllReduce(data.data(), data.data(), kCount, refused, ReduceOp::kSum).Wait();
    FAIL() << Name(refused) << " cannot be reduced on the device";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("group world, all_reduce number "), std::string::npos) << text;
    EXPECT_NE(text.find("HCCL_E_"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace trireme
