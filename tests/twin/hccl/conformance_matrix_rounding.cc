// Sums of floats that are not exact: how far from the true sum they may be, and that the same input gives the
// same bits every time and, in deterministic mode, in every kind of memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/twin/hccl/conformance_matrix.h"

namespace conformance {
namespace {

constexpr size_t kCount = 30011;
constexpr HcclDataType kFloats[] = {HCCL_DATA_TYPE_FP32, HCCL_DATA_TYPE_FP16, HCCL_DATA_TYPE_BFP16};

double NumberAt(HcclDataType type, const Bytes& bytes, size_t i) {
  if (type == HCCL_DATA_TYPE_FP32) {
    float value;
    std::memcpy(&value, &bytes[4 * i], 4);
    return value;
  }
  uint16_t code;
  std::memcpy(&code, &bytes[2 * i], 2);
  return DecodeHalf(code, FractionBits(type));
}

Bytes AllReduceOnce(HcclDataType type, Memory memory, HcclComm comm) {
  const World& w = TheWorld();
  Buffer send(memory, Fill(type, HCCL_REDUCE_SUM, Data::kRandom, w.rank, kCount));
  Buffer receive(memory, Untouched(kCount * Info(type).bytes));
  Need(HcclAllReduce(send.data(), receive.data(), kCount, type, HCCL_REDUCE_SUM, comm, w.stream), "all-reduce");
  NeedAcl(aclrtSynchronizeStream(w.stream), "all-reduce, synchronising");
  return receive.Read();
}

TEST(ConformanceRounding, TheReferenceRoundsToNearestEven) {
  EXPECT_EQ(EncodeHalf(1.0, 10), 0x3C00);
  EXPECT_EQ(EncodeHalf(-2.0, 7), 0xC000);
  EXPECT_EQ(EncodeHalf(2049.0, 10), EncodeHalf(2048.0, 10));  // a tie goes to the even neighbour
  EXPECT_EQ(EncodeHalf(2051.0, 10), EncodeHalf(2052.0, 10));
  EXPECT_EQ(EncodeHalf(257.0, 7), 0x4380);
  EXPECT_EQ(EncodeHalf(65520.0, 10), 0x7C00);  // past the largest: infinity
  EXPECT_EQ(EncodeHalf(std::ldexp(1.0, -24), 10), 0x0001);
  for (uint32_t code = 0; code < 0x7C00; ++code) {
    ASSERT_EQ(EncodeHalf(DecodeHalf(static_cast<uint16_t>(code), 10), 10), code);
  }
  for (uint32_t code = 0; code < 0x7F80; ++code) {
    ASSERT_EQ(EncodeHalf(DecodeHalf(static_cast<uint16_t>(code), 7), 7), code);
  }
}

TEST(ConformanceRounding, RandomSumsStayWithinOneUlpOfTheTrueSum) {
  const World& w = TheWorld();
  for (const HcclDataType type : kFloats) {
    std::vector<double> sum(kCount), magnitude(kCount);
    for (uint32_t rank = 0; rank < w.size; ++rank) {
      const Bytes bytes = Fill(type, HCCL_REDUCE_SUM, Data::kRandom, rank, kCount);
      for (size_t i = 0; i < kCount; ++i) {
        sum[i] += NumberAt(type, bytes, i);
        magnitude[i] += std::fabs(NumberAt(type, bytes, i));
      }
    }
    const Bytes actual = AllReduceOnce(type, Memory::kDevice, w.comm);
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double value = NumberAt(type, actual, i);
      // fp32 accumulation may lose this much before the result is rounded to the type.
      const double slack = w.size * std::ldexp(magnitude[i], -24);
      if (std::fabs(value - sum[i]) <= slack) continue;
      if (type == HCCL_DATA_TYPE_FP32) {
        ++wrong;
        continue;
      }
      uint16_t code;
      std::memcpy(&code, &actual[2 * i], 2);
      wrong += UlpDistance(code, EncodeHalf(sum[i], FractionBits(type))) > 1;
    }
    EXPECT_EQ(wrong, 0u) << Info(type).name << " on rank " << w.rank;
  }
}

TEST(ConformanceRounding, AllRanksHoldTheSameBits) {
  for (const HcclDataType type : kFloats) {
    const Bytes mine = AllReduceOnce(type, Memory::kDevice, TheWorld().comm);
    Bytes first = mine;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    EXPECT_EQ(mine, first) << Info(type).name << " on rank " << TheWorld().rank;
  }
}

TEST(ConformanceRounding, TheSameInputGivesTheSameBits) {
  for (const HcclDataType type : kFloats) {
    for (const Memory memory : {Memory::kDevice, Memory::kHost}) {
      const Bytes first = AllReduceOnce(type, memory, TheWorld().comm);
      for (int again = 0; again < 5; ++again) {
        EXPECT_EQ(AllReduceOnce(type, memory, TheWorld().comm), first) << Info(type).name;
      }
    }
  }
}

TEST(ConformanceRounding, DeterministicModeDoesNotDependOnTheKindOfMemory) {
  const World& w = TheWorld();
  HcclRootInfo root{};
  if (w.rank == 0) Need(HcclGetRootInfo(&root), "HcclGetRootInfo");
  MPI_Bcast(&root, sizeof(root), MPI_BYTE, 0, MPI_COMM_WORLD);
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  config.hcclBufferSize = 4;
  config.hcclDeterministic = 1;
  HcclComm comm = nullptr;
  Need(HcclCommInitRootInfoConfig(w.size, &root, w.rank, &config, &comm), "HcclCommInitRootInfoConfig");
  for (const HcclDataType type : kFloats) {
    EXPECT_EQ(AllReduceOnce(type, Memory::kDevice, comm), AllReduceOnce(type, Memory::kHost, comm)) << Info(type).name;
  }
  Need(HcclCommDestroy(comm), "HcclCommDestroy");
}

}  // namespace
}  // namespace conformance
