// Ranks whose calls do not match: every one of them gets an error, and the message names both sides.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/twin/hccl/conformance_threads.h"

namespace conformance {
namespace {

constexpr HcclDataType kType = HCCL_DATA_TYPE_FP32;
constexpr HcclReduceOp kSum = HCCL_REDUCE_SUM;

using Call = std::function<HcclResult(const Rank&, float* send, float* receive)>;

std::vector<Outcome> Outcomes(uint32_t size, const Call& call) {
  std::vector<Outcome> outcomes(size);
  RunRanks(size, [&](Rank& rank) {
    std::vector<float> send(8192, 1.0f), receive(8192);
    outcomes[rank.rank] = Finish(call(rank, send.data(), receive.data()), rank.stream);
  });
  return outcomes;
}

TEST(ConformanceMismatch, CountsOfAnAllReduce) {
  for (const uint32_t size : {2u, 4u}) {
    ExpectAllFailedNaming(Outcomes(size,
                                   [](const Rank& r, float* s, float* v) {
                                     const uint64_t count = r.rank == 1 ? 1001 : 1003;
                                     return HcclAllReduce(s, v, count, kType, kSum, r.comm, r.stream);
                                   }),
                          {"1001", "1003"});
  }
}

TEST(ConformanceMismatch, TypesOfAnAllReduce) {
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   const HcclDataType type = r.rank == 1 ? HCCL_DATA_TYPE_INT32 : kType;
                                   return HcclAllReduce(s, v, 100, type, kSum, r.comm, r.stream);
                                 }),
                        {"fp32", "int32"});
}

TEST(ConformanceMismatch, ReductionsOfAnAllReduce) {
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   const HcclReduceOp op = r.rank == 1 ? HCCL_REDUCE_MAX : kSum;
                                   return HcclAllReduce(s, v, 100, kType, op, r.comm, r.stream);
                                 }),
                        {"sum", "max"});
}

TEST(ConformanceMismatch, RootsOfABroadcast) {
  ExpectAllFailedNaming(
      Outcomes(4, [](const Rank& r, float* s,
                     float*) { return HcclBroadcast(s, 100, kType, r.rank < 2 ? 2 : 3, r.comm, r.stream); }),
      {"root", "2", "3"});
}

TEST(ConformanceMismatch, DifferentCollectives) {
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   if (r.rank == 0) return HcclAllReduce(s, v, 100, kType, kSum, r.comm, r.stream);
                                   return HcclAllGather(s, v, 100, kType, r.comm, r.stream);
                                 }),
                        {"reduce", "gather"});
}

TEST(ConformanceMismatch, CountsOfGathersAndScatters) {
  const auto count = [](const Rank& r) { return r.rank == 1 ? 201 : 203; };
  ExpectAllFailedNaming(Outcomes(2, [&](const Rank& r, float* s,
                                        float* v) { return HcclAllGather(s, v, count(r), kType, r.comm, r.stream); }),
                        {"201", "203"});
  ExpectAllFailedNaming(
      Outcomes(2, [&](const Rank& r, float* s,
                      float* v) { return HcclReduceScatter(s, v, count(r), kType, kSum, r.comm, r.stream); }),
      {"201", "203"});
  ExpectAllFailedNaming(Outcomes(2, [&](const Rank& r, float* s,
                                        float* v) { return HcclScatter(s, v, count(r), kType, 0, r.comm, r.stream); }),
                        {"201", "203"});
  ExpectAllFailedNaming(
      Outcomes(2, [&](const Rank& r, float* s,
                      float* v) { return HcclAlltoAll(s, count(r), kType, v, count(r), kType, r.comm, r.stream); }),
      {"201", "203"});
}

TEST(ConformanceMismatch, WhatOneSendsAndTheOtherExpectsInAnAllToAllV) {
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   // Rank 0 sends 55 to rank 1, which waits for 66.
                                   const uint64_t out[2][2] = {{5, 55}, {7, 8}};
                                   const uint64_t in[2][2] = {{5, 7}, {66, 8}};
                                   const uint64_t places[] = {0, 100};
                                   return HcclAlltoAllV(s, out[r.rank], places, kType, v, in[r.rank], places, kType,
                                                        r.comm, r.stream);
                                 }),
                        {"55", "66"});
}

TEST(ConformanceMismatch, CountsOfAnAllGatherV) {
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   // Rank 0 expects 44 from rank 1; rank 1 contributes 33.
                                   const uint64_t counts[2][2] = {{10, 44}, {10, 33}};
                                   const uint64_t places[] = {0, 100};
                                   return HcclAllGatherV(s, counts[r.rank][r.rank], v, counts[r.rank], places, kType,
                                                         r.comm, r.stream);
                                 }),
                        {"33", "44"});
}

TEST(ConformanceMismatch, WhatARankSendsAndWhatItExpectsOfItself) {
  const uint64_t counts[] = {63, 63}, places[] = {0, 100};
  ExpectAllFailedNaming(
      Outcomes(2, [&](const Rank& r, float* s,
                      float* v) { return HcclAllGatherV(s, 62, v, counts, places, kType, r.comm, r.stream); }),
      {"62", "63"});
  ExpectAllFailedNaming(Outcomes(2,
                                 [&](const Rank& r, float* s, float* v) {
                                   return HcclReduceScatterV(s, counts, places, v, 62, kType, kSum, r.comm, r.stream);
                                 }),
                        {"62", "63"});
}

TEST(ConformanceMismatch, CountsAndTypesOfSendAndReceive) {
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   if (r.rank == 0) return HcclSend(s, 71, kType, 1, r.comm, r.stream);
                                   return HcclRecv(v, 73, kType, 0, r.comm, r.stream);
                                 }),
                        {"71", "73"});
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   if (r.rank == 0) return HcclSend(s, 71, kType, 1, r.comm, r.stream);
                                   return HcclRecv(v, 71, HCCL_DATA_TYPE_INT32, 0, r.comm, r.stream);
                                 }),
                        {"fp32", "int32"});
}

TEST(ConformanceMismatch, CountsInABatch) {
  ExpectAllFailedNaming(Outcomes(2,
                                 [](const Rank& r, float* s, float* v) {
                                   const uint64_t out = r.rank == 0 ? 81 : 90;
                                   const uint64_t in = r.rank == 0 ? 90 : 83;
                                   HcclSendRecvItem items[] = {{HCCL_SEND, s, out, kType, 1 - r.rank},
                                                               {HCCL_RECV, v, in, kType, 1 - r.rank}};
                                   return HcclBatchSendRecv(items, 2, r.comm, r.stream);
                                 }),
                        {"81", "83"});
}

// Both send first: a rendezvous that cannot happen. HCCL_EXEC_TIMEOUT is 2 s in this program.
TEST(ConformanceMismatch, TwoOpposingSendsBlockUntilTheExecutionTimeout) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Outcome> outcomes = Outcomes(2, [](const Rank& r, float* s, float* v) {
    const HcclResult sent = HcclSend(s, 1, kType, 1 - r.rank, r.comm, r.stream);
    EXPECT_EQ(sent, HCCL_SUCCESS) << "the call itself only queues";
    return HcclRecv(v, 1, kType, 1 - r.rank, r.comm, r.stream);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ExpectAllFailedNaming(outcomes, {"time"});
  EXPECT_GE(seconds, 1.9) << "a send ended without its receive";
}

}  // namespace
}  // namespace conformance
