// Invalid arguments that one rank can detect by itself: each is refused at the call, with the documented
// code, and the communicator stays usable.
#include <gtest/gtest.h>

#include <vector>

#include "tests/twin/hccl/conformance_threads.h"
#include "tests/twin/hccl/conformance_types.h"

namespace conformance {
namespace {

constexpr HcclDataType kType = HCCL_DATA_TYPE_FP32;
constexpr HcclReduceOp kSum = HCCL_REDUCE_SUM;

// Two ranks, a send and a receive buffer, and a check at the end that the communicator still works.
void WithBuffers(const std::function<void(Rank&, float* send, float* receive)>& body) {
  RunRanks(2, [&](Rank& rank) {
    std::vector<float> send(64, 1.0f), receive(64);
    body(rank, send.data(), receive.data());
    const HcclResult result = HcclAllReduce(send.data(), receive.data(), 64, kType, kSum, rank.comm, rank.stream);
    const Outcome outcome = Finish(result, rank.stream);
    EXPECT_FALSE(outcome.failed()) << "the refusal broke the communicator: " << outcome.text;
    EXPECT_EQ(receive[63], 2.0f);
  });
}

TEST(ConformanceArguments, EveryPairOfTypeAndReductionOutsideTheTableIsRefused) {
  WithBuffers([](Rank& r, float* s, float* v) {
    const uint64_t counts[] = {1, 1}, places[] = {0, 1};
    for (const TypeInfo& type : AllTypes()) {
      for (const HcclReduceOp op : kAllOps) {
        if (Reducible(type.type, op)) continue;
        SCOPED_TRACE(std::string(OpName(op)) + " of " + type.name);
        const HcclDataType t = type.type;
        EXPECT_EQ(HcclAllReduce(s, v, 1, t, op, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
        EXPECT_EQ(HcclReduce(s, v, 1, t, op, 0, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
        EXPECT_EQ(HcclReduceScatter(s, v, 1, t, op, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
        EXPECT_EQ(HcclReduceScatterV(s, counts, places, v, 1, t, op, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
        const char* spelled = t == HCCL_DATA_TYPE_BFP16 ? "bfp16" : type.name;  // HCCL's own name for it
        const std::string text = RecentError();
        EXPECT_NE(text.find(spelled), std::string::npos) << text;
      }
    }
  });
}

// HCCL's documentation of this call lists sum, max and min for Atlas A2.
TEST(ConformanceArguments, ReduceScatterVRefusesProd) {
  WithBuffers([](Rank& r, float* s, float* v) {
    const uint64_t counts[] = {1, 1}, places[] = {0, 1};
    for (const TypeInfo& type : AllTypes()) {
      if (!Reducible(type.type, HCCL_REDUCE_PROD)) continue;
      EXPECT_EQ(HcclReduceScatterV(s, counts, places, v, 1, type.type, HCCL_REDUCE_PROD, r.comm, r.stream),
                HCCL_E_NOT_SUPPORT)
          << type.name;
      EXPECT_NE(RecentError().find("wanted sum, max or min"), std::string::npos) << RecentError();
    }
  });
}

TEST(ConformanceArguments, TypesAndReductionsThatDoNotExistAreRefused) {
  WithBuffers([](Rank& r, float* s, float* v) {
    // Printed, not passed: the wheel's enumeration cannot hold their values, and a sanitizer would complain.
    static_assert(sizeof(HCCL_DATA_TYPE_FP8E5M2) == sizeof(HCCL_DATA_TYPE_FP8E8M0));
    for (const HcclDataType t : {HCCL_DATA_TYPE_INT128, HCCL_DATA_TYPE_HIF8, HCCL_DATA_TYPE_FP8E4M3}) {
      const int type = static_cast<int>(t);
      EXPECT_NE(HcclAllReduce(s, v, 1, t, kSum, r.comm, r.stream), HCCL_SUCCESS) << type;
      EXPECT_NE(HcclBroadcast(s, 1, t, 0, r.comm, r.stream), HCCL_SUCCESS) << type;
      EXPECT_NE(HcclAllGather(s, v, 1, t, r.comm, r.stream), HCCL_SUCCESS) << type;
      EXPECT_NE(HcclAlltoAll(s, 1, t, v, 1, t, r.comm, r.stream), HCCL_SUCCESS) << type;
      EXPECT_NE(HcclSend(s, 1, t, 1 - r.rank, r.comm, r.stream), HCCL_SUCCESS) << type;
    }
    for (const int op : {4, 7}) {
      EXPECT_NE(HcclAllReduce(s, v, 1, kType, static_cast<HcclReduceOp>(op), r.comm, r.stream), HCCL_SUCCESS) << op;
    }
  });
}

TEST(ConformanceArguments, NullBuffersAreRefused) {
  WithBuffers([](Rank& r, float* s, float* v) {
    const uint64_t counts[] = {1, 1}, places[] = {0, 1};
    const uint64_t matrix[] = {1, 1, 1, 1};
    HcclComm c = r.comm;
    aclrtStream q = r.stream;
    EXPECT_EQ(HcclAllReduce(nullptr, v, 1, kType, kSum, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAllReduce(s, nullptr, 1, kType, kSum, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclBroadcast(nullptr, 1, kType, 0, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclReduceScatter(nullptr, v, 1, kType, kSum, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAllGather(s, nullptr, 1, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclSend(nullptr, 1, kType, 1 - r.rank, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclRecv(nullptr, 1, kType, 1 - r.rank, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAlltoAll(nullptr, 1, kType, v, 1, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAlltoAllV(s, nullptr, places, kType, v, counts, places, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAlltoAllV(s, counts, places, kType, v, counts, nullptr, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAlltoAllV(nullptr, counts, places, kType, v, counts, places, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAlltoAllVC(s, nullptr, kType, v, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAlltoAllVC(s, matrix, kType, nullptr, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclAllGatherV(s, 1, v, nullptr, places, kType, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclReduceScatterV(s, counts, nullptr, v, 1, kType, kSum, c, q), HCCL_E_PTR);
    EXPECT_EQ(HcclBatchSendRecv(nullptr, 1, c, q), HCCL_E_PTR);
    HcclSendRecvItem item{HCCL_SEND, nullptr, 1, kType, 1 - r.rank};
    EXPECT_EQ(HcclBatchSendRecv(&item, 1, c, q), HCCL_E_PTR);
  });
}

TEST(ConformanceArguments, NullHandlesAndResultsAreRefused) {
  WithBuffers([](Rank& r, float* s, float* v) {
    EXPECT_EQ(HcclAllReduce(s, v, 1, kType, kSum, nullptr, r.stream), HCCL_E_PTR);
    EXPECT_EQ(HcclBarrier(nullptr, r.stream), HCCL_E_PTR);
    EXPECT_EQ(HcclCommDestroy(nullptr), HCCL_E_PTR);
    EXPECT_EQ(HcclGetCommAsyncError(r.comm, nullptr), HCCL_E_PTR);
    EXPECT_EQ(HcclGetCommName(r.comm, nullptr), HCCL_E_PTR);
    EXPECT_EQ(HcclGetRankId(r.comm, nullptr), HCCL_E_PTR);
    EXPECT_EQ(HcclGetRankSize(r.comm, nullptr), HCCL_E_PTR);
    EXPECT_EQ(HcclGetRootInfo(nullptr), HCCL_E_PTR);
    HcclRootInfo root{};
    HcclComm comm = nullptr;
    EXPECT_EQ(HcclCommInitRootInfo(1, nullptr, 0, &comm), HCCL_E_PTR);
    EXPECT_EQ(HcclCommInitRootInfo(1, &root, 0, nullptr), HCCL_E_PTR);
    EXPECT_EQ(HcclCommInitAll(2, nullptr, &comm), HCCL_E_PTR);
    int32_t devices[] = {0, 1};
    EXPECT_EQ(HcclCommInitAll(2, devices, nullptr), HCCL_E_PTR);
  });
}

TEST(ConformanceArguments, RootsAndPeersOutsideTheGroupAreRefused) {
  WithBuffers([](Rank& r, float* s, float* v) {
    EXPECT_EQ(HcclBroadcast(s, 1, kType, 2, r.comm, r.stream), HCCL_E_PARA);
    EXPECT_EQ(HcclReduce(s, v, 1, kType, kSum, 7, r.comm, r.stream), HCCL_E_PARA);
    EXPECT_EQ(HcclScatter(s, v, 1, kType, 0xFFFFFFFF, r.comm, r.stream), HCCL_E_PARA);
    EXPECT_EQ(HcclSend(s, 1, kType, 2, r.comm, r.stream), HCCL_E_PARA);
    EXPECT_EQ(HcclRecv(v, 1, kType, 2, r.comm, r.stream), HCCL_E_PARA);
    HcclSendRecvItem item{HCCL_RECV, v, 1, kType, 2};
    EXPECT_EQ(HcclBatchSendRecv(&item, 1, r.comm, r.stream), HCCL_E_PARA);
    item = {HCCL_SEND_RECV_RESERVED, v, 1, kType, 0};
    EXPECT_EQ(HcclBatchSendRecv(&item, 1, r.comm, r.stream), HCCL_E_PARA);
  });
}

TEST(ConformanceArguments, TwoMessagesForOnePeerAndDirectionInABatchAreRefused) {
  WithBuffers([](Rank& r, float* s, float* v) {
    const uint32_t peer = 1 - r.rank;
    HcclSendRecvItem sends[] = {
        {HCCL_SEND, s, 1, kType, peer}, {HCCL_RECV, v, 1, kType, peer}, {HCCL_SEND, s + 1, 1, kType, peer}};
    EXPECT_EQ(HcclBatchSendRecv(sends, 3, r.comm, r.stream), HCCL_E_PARA);
    HcclSendRecvItem receives[] = {{HCCL_RECV, v, 1, kType, peer}, {HCCL_RECV, v + 1, 1, kType, peer}};
    EXPECT_EQ(HcclBatchSendRecv(receives, 2, r.comm, r.stream), HCCL_E_PARA);
  });
}

TEST(ConformanceArguments, VariableExchangesInPlaceAreRefused) {
  WithBuffers([](Rank& r, float* s, float*) {
    const uint64_t counts[] = {1, 1}, places[] = {0, 1};
    EXPECT_EQ(HcclAlltoAllV(s, counts, places, kType, s, counts, places, kType, r.comm, r.stream), HCCL_E_PARA);
    EXPECT_EQ(HcclAllGatherV(s, 1, s, counts, places, kType, r.comm, r.stream), HCCL_E_PARA);
  });
}

TEST(ConformanceArguments, OnlyDeterminismCanBeConfigured) {
  HcclConfigValue value{.value = 1};
  EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_SUCCESS);
  HcclConfigValue read{.value = 9};
  EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &read), HCCL_SUCCESS);
  EXPECT_EQ(read.value, 1);
  value.value = 0;
  EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_SUCCESS);
  EXPECT_NE(HcclSetConfig(HCCL_CONFIG_RESERVED, value), HCCL_SUCCESS);
  EXPECT_NE(HcclGetConfig(HCCL_CONFIG_RESERVED, &read), HCCL_SUCCESS);
}

TEST(ConformanceArguments, EveryResultHasAText) {
  for (int code = HCCL_SUCCESS; code < HCCL_E_RESERVED; ++code) {
    const char* text = HcclGetErrorString(static_cast<HcclResult>(code));
    ASSERT_NE(text, nullptr) << code;
    EXPECT_GT(std::string(text).size(), 2u) << code;
  }
}

}  // namespace
}  // namespace conformance
