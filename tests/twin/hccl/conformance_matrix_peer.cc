// Point-to-point, batches, the barrier, sub-communicators and mixed sequences without host synchronisation.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/twin/hccl/conformance_matrix.h"

namespace conformance {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Wait(const std::string& what) { NeedAcl(aclrtSynchronizeStream(TheWorld().stream), what + ", synchronising"); }

TEST(ConformancePeer, SendAndReceiveAroundARing) {
  const World& w = TheWorld();
  if (w.size == 1) {
    int32_t value = 0;
    EXPECT_EQ(HcclSend(&value, 1, HCCL_DATA_TYPE_INT32, 1, w.comm, w.stream), HCCL_E_PARA) << "there is no rank 1";
    return;
  }
  const uint32_t next = (w.rank + 1) % w.size;
  const uint32_t previous = (w.rank + w.size - 1) % w.size;
  for (const TypeInfo& type : AllTypes()) {
    for (const size_t count : kCounts) {
      const std::string what = std::string("ring of ") + type.name + " x " + std::to_string(count);
      const Bytes send = Bits(type.type, w.rank, count);
      Bytes expected(send.size());
      const int bytes = static_cast<int>(send.size());
      MPI_Sendrecv(send.data(), bytes, MPI_BYTE, static_cast<int>(next), 0, expected.data(), bytes, MPI_BYTE,
                   static_cast<int>(previous), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      RunCase({.name = what, .send = send, .expected = expected, .call = [&](void* s, void* r) {
                 // A send waits for its receive: of two neighbours one must receive first.
                 const bool sends_first = w.rank % 2 == 0;
                 if (sends_first) Need(HcclSend(s, count, type.type, next, w.comm, w.stream), what);
                 Need(HcclRecv(r, count, type.type, previous, w.comm, w.stream), what);
                 if (!sends_first) Need(HcclSend(s, count, type.type, next, w.comm, w.stream), what);
                 return HCCL_SUCCESS;
               }});
    }
  }
}

// Each rank exchanges with every other in one batch, with its own item order and sizes per pair.
TEST(ConformancePeer, BatchExchangesWithEveryPeerInAnyOrder) {
  const World& w = TheWorld();
  if (w.size == 1) {
    int32_t value = 0;
    HcclSendRecvItem item{HCCL_SEND, &value, 1, HCCL_DATA_TYPE_INT32, 1};
    EXPECT_EQ(HcclBatchSendRecv(&item, 1, w.comm, w.stream), HCCL_E_PARA) << "there is no rank 1";
    return;
  }
  for (const TypeInfo& type : AllTypes()) {
    for (const size_t count : kCounts) {
      const auto amount = [&](uint32_t from, uint32_t to) { return count == 0 ? 0 : count + 2 * from + to; };
      Bytes send, expected;
      std::vector<size_t> out_places, in_places;
      for (uint32_t peer = 0; peer < w.size; ++peer) {
        out_places.push_back(send.size());
        in_places.push_back(expected.size());
        if (peer == w.rank) continue;
        const Bytes out = Bits(type.type, 100 * w.rank + peer, amount(w.rank, peer));
        const Bytes in = Bits(type.type, 100 * peer + w.rank, amount(peer, w.rank));
        send.insert(send.end(), out.begin(), out.end());
        expected.insert(expected.end(), in.begin(), in.end());
      }
      RunCase({.name = std::string("batch of ") + type.name + " x " + std::to_string(count),
               .send = send,
               .expected = expected,
               .call = [&](void* s, void* r) {
                 std::vector<HcclSendRecvItem> items;
                 for (uint32_t step = 1; step < w.size; ++step) {
                   const uint32_t other = (w.rank + step) % w.size;
                   auto* out = static_cast<uint8_t*>(s) + out_places[other];
                   auto* in = static_cast<uint8_t*>(r) + in_places[other];
                   HcclSendRecvItem sending{HCCL_SEND, out, amount(w.rank, other), type.type, other};
                   HcclSendRecvItem receiving{HCCL_RECV, in, amount(other, w.rank), type.type, other};
                   items.push_back(w.rank % 2 ? receiving : sending);
                   items.push_back(w.rank % 2 ? sending : receiving);
                 }
                 return HcclBatchSendRecv(items.data(), static_cast<uint32_t>(items.size()), w.comm, w.stream);
               }});
    }
  }
}

TEST(ConformancePeer, NoRankPassesTheBarrierBeforeTheLastHasReachedIt) {
  const World& w = TheWorld();
  for (uint32_t late = 0; late < w.size; ++late) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (w.rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    double reached = Now();
    Need(HcclBarrier(w.comm, w.stream), "barrier");
    Wait("barrier");
    const double passed = Now();
    MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_GE(passed, reached) << "rank " << w.rank << " passed before rank " << late << " arrived";
  }
}

// The even and the odd ranks, two groups at the same time: ranks are those of the group, in list order.
TEST(ConformancePeer, SubCommunicatorRanksFollowTheListOrder) {
  const World& w = TheWorld();
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < w.size; ++rank) {
    if (rank % 2 == w.rank % 2) members.push_back(rank);
  }
  const auto mine = static_cast<uint32_t>(std::find(members.begin(), members.end(), w.rank) - members.begin());
  const auto size = static_cast<uint32_t>(members.size());
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  config.hcclBufferSize = 4;
  HcclComm parent = w.comm;
  HcclComm sub = nullptr;
  Need(HcclCreateSubCommConfig(&parent, size, members.data(), 7 + w.rank % 2, mine, &config, &sub),
       "HcclCreateSubCommConfig");
  uint32_t sub_rank = 99, sub_size = 99;
  Need(HcclGetRankId(sub, &sub_rank), "HcclGetRankId");
  Need(HcclGetRankSize(sub, &sub_size), "HcclGetRankSize");
  EXPECT_EQ(sub_rank, mine);
  EXPECT_EQ(sub_size, size);
  char global_name[128] = {}, sub_name[128] = {};
  Need(HcclGetCommName(w.comm, global_name), "HcclGetCommName");
  Need(HcclGetCommName(sub, sub_name), "HcclGetCommName");
  EXPECT_EQ(std::string(sub_name), std::string(global_name) + "_sub_" + std::to_string(7 + w.rank % 2));
  Bytes expected;
  for (const uint32_t member : members) {
    const Bytes part = Bits(HCCL_DATA_TYPE_INT32, member, 1000);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  RunCase({.name = "all-gather of a sub-communicator",
           .send = Bits(HCCL_DATA_TYPE_INT32, w.rank, 1000),
           .expected = expected,
           .call = [&](void* s, void* r) { return HcclAllGather(s, r, 1000, HCCL_DATA_TYPE_INT32, sub, w.stream); }});
  Need(HcclCommDestroy(sub), "HcclCommDestroy");
}

TEST(ConformancePeer, RanksOutsideASubCommunicatorGetNone) {
  const World& w = TheWorld();
  uint32_t only[] = {0};
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  config.hcclBufferSize = 4;
  HcclComm parent = w.comm;
  HcclComm sub = nullptr;
  if (w.rank == 0) {
    Need(HcclCreateSubCommConfig(&parent, 1, only, 3, 0, &config, &sub), "a member's HcclCreateSubCommConfig");
    EXPECT_NE(sub, nullptr);
    Need(HcclCommDestroy(sub), "HcclCommDestroy");
  } else {
    Need(HcclCreateSubCommConfig(&parent, 0, nullptr, kNoSubComm, 0, &config, &sub), "a non-member's call");
    EXPECT_EQ(sub, nullptr);
  }
}

// A hundred dependent collectives of varying kind and size on one stream: each reads what the previous one
// wrote.
TEST(ConformancePeer, AChainOfCollectivesNeedsNoHostSynchronisation) {
  const World& w = TheWorld();
  constexpr size_t count = 999;
  Buffer values(Memory::kDevice, Bytes(count * 8 * w.size));
  std::vector<int64_t> start(count * w.size, static_cast<int64_t>(w.rank));
  NeedAcl(aclrtMemcpy(values.data(), start.size() * 8, start.data(), start.size() * 8, ACL_MEMCPY_HOST_TO_DEVICE), "");
  auto* part = values.data() + w.rank * count * 8;
  const auto max = HCCL_REDUCE_MAX;
  const auto type = HCCL_DATA_TYPE_INT64;
  for (uint32_t round = 0; round < 100; ++round) {
    Need(HcclAllReduce(values.data(), values.data(), 1 + round % count, type, max, w.comm, w.stream), "all-reduce");
    Need(HcclReduceScatter(values.data(), part, count, type, max, w.comm, w.stream), "reduce-scatter");
    Need(HcclAllGather(part, values.data(), count, type, w.comm, w.stream), "all-gather");
    Need(HcclBroadcast(values.data(), count, type, round % w.size, w.comm, w.stream), "broadcast");
  }
  Wait("chain");
  std::vector<int64_t> end(start.size());
  std::memcpy(end.data(), values.Read().data(), end.size() * 8);
  EXPECT_EQ(end, std::vector<int64_t>(end.size(), static_cast<int64_t>(w.size) - 1)) << "rank " << w.rank;
}

}  // namespace
}  // namespace conformance
