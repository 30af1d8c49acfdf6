// The lifetime of a communicator: how it is created, who may call it, from which thread, on which stream, and
// when it may be destroyed.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/twin/hccl/conformance_threads.h"

namespace conformance {
namespace {

constexpr HcclDataType kType = HCCL_DATA_TYPE_FP32;
constexpr HcclReduceOp kSum = HCCL_REDUCE_SUM;

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// A communicator of this thread's device alone.
HcclComm Alone() {
  HcclRootInfo root{};
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS) << RecentError();
  EXPECT_EQ(HcclCommInitRootInfo(1, &root, 0, &comm), HCCL_SUCCESS) << RecentError();
  return comm;
}

struct Hammer {
  HcclComm comm = nullptr;
  HcclResult first_error = HCCL_SUCCESS;
  std::string text;
};

void CallUntilRefused(Hammer& hammer, std::atomic<bool>& over) {
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  float send[8] = {}, receive[8] = {};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!over && std::chrono::steady_clock::now() < end) {
    for (int call = 0; call < 50 && hammer.first_error == HCCL_SUCCESS; ++call) {
      hammer.first_error = HcclAllReduce(send, receive, 8, kType, kSum, hammer.comm, stream);
    }
    if (hammer.first_error != HCCL_SUCCESS) {
      hammer.text = RecentError();
      over = true;
    }
    aclrtSynchronizeStream(stream);
  }
  aclrtDestroyStreamForce(stream);
}

TEST(ConformanceLife, TwoThreadsThatCallOnOneDeviceAtOnceAreRefused) {
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  Hammer hammers[2];
  for (Hammer& hammer : hammers) hammer.comm = Alone();
  std::atomic<bool> over{false};
  std::thread first([&] { CallUntilRefused(hammers[0], over); });
  std::thread second([&] { CallUntilRefused(hammers[1], over); });
  first.join();
  second.join();
  EXPECT_TRUE(hammers[0].first_error != HCCL_SUCCESS || hammers[1].first_error != HCCL_SUCCESS)
      << "two threads called concurrently for 20 s and no error was reported";
  EXPECT_NE((hammers[0].text + hammers[1].text).find("thread"), std::string::npos)
      << hammers[0].text << hammers[1].text;
  for (const Hammer& hammer : hammers) HcclCommDestroy(hammer.comm);
  EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
}

TEST(ConformanceLife, ConcurrentCreationOnOneDeviceIsRefused) {
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  HcclRootInfo pair{}, single{};
  ASSERT_EQ(HcclGetRootInfo(&pair), HCCL_SUCCESS) << "several root infos in a row are legal";
  ASSERT_EQ(HcclGetRootInfo(&single), HCCL_SUCCESS) << RecentError();
  HcclResult waiting_result = HCCL_E_RESERVED;
  HcclComm waiting = nullptr;
  std::thread waiter([&] {
    aclrtSetDevice(0);
    waiting_result = HcclCommInitRootInfo(2, &pair, 0, &waiting);
  });
  Sleep(300);  // the waiting thread now waits for rank 1
  HcclComm other = nullptr;
  EXPECT_NE(HcclCommInitRootInfo(1, &single, 0, &other), HCCL_SUCCESS) << "device 0 is creating another communicator";
  std::thread late([&] {
    aclrtSetDevice(1);
    HcclComm comm = nullptr;
    EXPECT_EQ(HcclCommInitRootInfo(2, &pair, 1, &comm), HCCL_SUCCESS) << RecentError();
    HcclCommDestroy(comm);
  });
  late.join();
  waiter.join();
  EXPECT_EQ(waiting_result, HCCL_SUCCESS);
  HcclCommDestroy(waiting);
}

TEST(ConformanceLife, RootInfoNeedsADevice) {
  std::thread([] {
    HcclRootInfo root{};
    EXPECT_NE(HcclGetRootInfo(&root), HCCL_SUCCESS) << "this thread has set no device";
  }).join();
}

TEST(ConformanceLife, WrongRanksAndRootInfosAreRefused) {
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  HcclRootInfo root{};
  ASSERT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(2, &root, 2, &comm), HCCL_E_PARA) << "rank 2 of 2";
  EXPECT_EQ(HcclCommInitRootInfo(0, &root, 0, &comm), HCCL_E_PARA) << "no ranks";
  HcclRootInfo garbage;
  std::memset(&garbage, 0x77, sizeof(garbage));
  EXPECT_NE(HcclCommInitRootInfo(2, &garbage, 1, &comm), HCCL_SUCCESS);
  int32_t twice[] = {1, 1};
  HcclComm comms[2] = {};
  EXPECT_NE(HcclCommInitAll(2, twice, comms), HCCL_SUCCESS) << "one device named twice";
  int32_t missing[] = {0, 1000};
  EXPECT_NE(HcclCommInitAll(2, missing, comms), HCCL_SUCCESS) << "device 1000";
}

TEST(ConformanceLife, DuplicateRanksAndDifferingSizesAreRefused) {
  for (const bool same_rank : {true, false}) {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    HcclRootInfo root{};
    ASSERT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
    HcclResult results[2] = {};
    std::string texts[2];
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        aclrtSetDevice(static_cast<int32_t>(i));
        HcclComm comm = nullptr;
        results[i] = HcclCommInitRootInfo(same_rank ? 2 : 2 + i, &root, same_rank ? 0 : i, &comm);
        texts[i] = RecentError();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_NE(results[0], HCCL_SUCCESS) << same_rank;
    EXPECT_NE(results[1], HCCL_SUCCESS) << same_rank;
  }
}

TEST(ConformanceLife, InitAllCreatesOneCommunicatorPerDevice) {
  int32_t devices[] = {2, 0, 3};
  HcclComm comms[3] = {};
  ASSERT_EQ(HcclCommInitAll(3, devices, comms), HCCL_SUCCESS) << RecentError();
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      ASSERT_EQ(aclrtSetDevice(devices[i]), ACL_SUCCESS);
      aclrtStream stream = nullptr;
      ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
      uint32_t rank = 99;
      EXPECT_EQ(HcclGetRankId(comms[i], &rank), HCCL_SUCCESS);
      EXPECT_EQ(rank, i);
      float send = static_cast<float>(i), receive[3] = {};
      const Outcome outcome = Finish(HcclAllGather(&send, receive, 1, kType, comms[i], stream), stream);
      EXPECT_FALSE(outcome.failed()) << outcome.text;
      for (int from = 0; from < 3; ++from) EXPECT_EQ(receive[from], static_cast<float>(from));
      EXPECT_EQ(HcclCommDestroy(comms[i]), HCCL_SUCCESS);
      aclrtDestroyStream(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ConformanceLife, StreamsOfAnotherDeviceOrContextAreRefused) {
  RunRanks(2, [](Rank& rank) {
    float send = 1, receive = 0;
    ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(2 + rank.rank)), ACL_SUCCESS);
    aclrtStream elsewhere = nullptr;
    ASSERT_EQ(aclrtCreateStream(&elsewhere), ACL_SUCCESS);
    ASSERT_EQ(aclrtSetCurrentContext(rank.context), ACL_SUCCESS);
    EXPECT_NE(HcclAllReduce(&send, &receive, 1, kType, kSum, rank.comm, elsewhere), HCCL_SUCCESS);
    EXPECT_NE(HcclBarrier(rank.comm, elsewhere), HCCL_SUCCESS);
    aclrtContext second = nullptr;
    ASSERT_EQ(aclrtCreateContext(&second, static_cast<int32_t>(rank.rank)), ACL_SUCCESS);
    aclrtStream in_second = nullptr;
    ASSERT_EQ(aclrtCreateStream(&in_second), ACL_SUCCESS);
    ASSERT_EQ(aclrtSetCurrentContext(rank.context), ACL_SUCCESS);
    EXPECT_NE(HcclAllReduce(&send, &receive, 1, kType, kSum, rank.comm, in_second), HCCL_SUCCESS)
        << "one communicator, one context";
    aclrtDestroyStream(in_second);
    aclrtDestroyContext(second);
    ASSERT_EQ(aclrtSetCurrentContext(rank.context), ACL_SUCCESS);
    EXPECT_FALSE(Finish(HcclAllReduce(&send, &receive, 1, kType, kSum, rank.comm, rank.stream), rank.stream).failed());
  });
}

TEST(ConformanceLife, NothingIsAcceptedAfterDestroy) {
  RunRanks(2, [](Rank& rank) {
    float send = 1, receive = 0;
    const HcclComm gone = rank.comm;
    ASSERT_EQ(HcclCommDestroy(rank.comm), HCCL_SUCCESS);
    rank.comm = nullptr;
    EXPECT_NE(HcclAllReduce(&send, &receive, 1, kType, kSum, gone, rank.stream), HCCL_SUCCESS);
    EXPECT_NE(HcclSend(&send, 1, kType, 0, gone, rank.stream), HCCL_SUCCESS);
    HcclResult error = HCCL_SUCCESS;
    EXPECT_NE(HcclGetCommAsyncError(gone, &error), HCCL_SUCCESS);
    EXPECT_NE(HcclCommDestroy(gone), HCCL_SUCCESS) << "destroyed twice";
  });
}

TEST(ConformanceLife, DestroyingABusyCommunicatorFromAnotherThreadReturnsAgain) {
  std::barrier together(2);
  RunRanks(2, [&](Rank& rank) {
    float send = 1, receive = 0;
    if (rank.rank == 1) together.arrive_and_wait();  // arrives late: until then rank 0 is busy
    ASSERT_EQ(HcclAllReduce(&send, &receive, 1, kType, kSum, rank.comm, rank.stream), HCCL_SUCCESS);
    if (rank.rank == 0) {
      std::thread([&] {
        aclrtSetDevice(0);
        EXPECT_EQ(HcclCommDestroy(rank.comm), HCCL_E_AGAIN);
      }).join();
      together.arrive_and_wait();
    }
    EXPECT_FALSE(Finish(HCCL_SUCCESS, rank.stream).failed());
    EXPECT_EQ(receive, 2.0f) << "the refusal broke the collective";
  });
}

TEST(ConformanceLife, ASendWaitsForItsReceive) {
  std::barrier together(2);
  RunRanks(2, [&](Rank& rank) {
    float value = rank.rank == 0 ? 5.0f : 0.0f;
    if (rank.rank == 0) {
      ASSERT_EQ(HcclSend(&value, 1, kType, 1, rank.comm, rank.stream), HCCL_SUCCESS);
      Sleep(100);
      aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
      EXPECT_EQ(aclrtStreamQuery(rank.stream, &status), ACL_SUCCESS);
      EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY) << "the send ended before its receive was posted";
      together.arrive_and_wait();
    } else {
      together.arrive_and_wait();
      ASSERT_EQ(HcclRecv(&value, 1, kType, 0, rank.comm, rank.stream), HCCL_SUCCESS);
    }
    EXPECT_FALSE(Finish(HCCL_SUCCESS, rank.stream).failed());
    EXPECT_EQ(value, 5.0f);
  });
}

}  // namespace
}  // namespace conformance
