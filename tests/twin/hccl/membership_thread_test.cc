// Communicators whose ranks are threads of one process, each with its own device, and the interface's own
// properties: names, configuration, strictness about invalid calls.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <latch>
#include <thread>

#include "acl/acl.h"
#include "tests/twin/hccl/membership_processes.h"

namespace membership_test {
namespace {

HcclCommConfig SmallConfig(const std::string& name = "") {
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  config.hcclBufferSize = 1;
  std::snprintf(config.hcclCommName, sizeof(config.hcclCommName), "%s", name.c_str());
  return config;
}

// Runs one thread per rank, each on its own device.
void OnThreads(uint32_t count, const std::function<void(uint32_t)>& body) {
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&body, rank] {
      ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank)), ACL_SUCCESS);
      body(rank);
    });
  }
}

HcclRootInfo NewRootInfo() {
  EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  HcclRootInfo info{};
  EXPECT_EQ(HcclGetRootInfo(&info), HCCL_SUCCESS) << RecentError();
  return info;
}

std::string NameOf(HcclComm comm) {
  char name[COMM_NAME_MAX_LENGTH] = {};
  EXPECT_EQ(HcclGetCommName(comm, name), HCCL_SUCCESS) << RecentError();
  return name;
}

// Creates the global communicator of `count` thread ranks, passes it to `body`, and destroys it.
void WithComm(uint32_t count, const std::function<void(uint32_t, HcclComm)>& body) {
  const HcclRootInfo info = NewRootInfo();
  OnThreads(count, [&](uint32_t rank) {
    HcclComm comm = nullptr;
    HcclCommConfig config = SmallConfig("world");
    ASSERT_EQ(HcclCommInitRootInfoConfig(count, &info, rank, &config, &comm), HCCL_SUCCESS) << RecentError();
    body(rank, comm);
    EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS) << RecentError();
  });
}

class MembershipOfThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    SetConnectTimeout("20");
    setenv("HCCL_BUFFSIZE", "1", 1);
    const aclError code = aclInit(nullptr);
    ASSERT_TRUE(code == ACL_SUCCESS || code == ACL_ERROR_REPEAT_INITIALIZE);
  }
};

TEST_F(MembershipOfThreads, ManyCommunicatorsOfEightThreads) {
  constexpr uint32_t kCommunicators = 20;
  std::vector<HcclRootInfo> infos(kCommunicators);
  for (HcclRootInfo& info : infos) info = NewRootInfo();
  OnThreads(8, [&](uint32_t rank) {
    std::vector<HcclComm> comms(kCommunicators);
    for (uint32_t i = 0; i < kCommunicators; ++i) {
      ASSERT_EQ(HcclCommInitRootInfo(8, &infos[i], rank, &comms[i]), HCCL_SUCCESS) << RecentError();
    }
    for (const HcclComm comm : comms) {
      uint32_t found = 99;
      EXPECT_EQ(HcclGetRankId(comm, &found), HCCL_SUCCESS);
      EXPECT_EQ(found, rank);
    }
    for (const HcclComm comm : comms) EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS) << RecentError();
  });
}

TEST_F(MembershipOfThreads, InitAllCreatesOneMemberPerDevice) {
  std::vector<int32_t> devices{5, 2, 7};
  std::vector<HcclComm> comms(3);
  ASSERT_EQ(HcclCommInitAll(3, devices.data(), comms.data()), HCCL_SUCCESS) << RecentError();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    uint32_t found = 99;
    EXPECT_EQ(HcclGetRankId(comms[rank], &found), HCCL_SUCCESS);
    EXPECT_EQ(found, rank);
    EXPECT_EQ(NameOf(comms[rank]), NameOf(comms[0]));
  }
  for (const HcclComm comm : comms) EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  devices[2] = 5;
  EXPECT_EQ(HcclCommInitAll(3, devices.data(), comms.data()), HCCL_E_PARA) << "device 5 twice";
  devices[2] = 4096;
  EXPECT_EQ(HcclCommInitAll(3, devices.data(), comms.data()), HCCL_E_PARA) << "no such device";
}

TEST_F(MembershipOfThreads, ConcurrentCreationOnOneDeviceIsRefused) {
  const HcclRootInfo info = NewRootInfo();
  std::latch refused(1);
  std::jthread waiting([&] {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    HcclComm comm = nullptr;
    HcclResult code = HCCL_E_UNAVAIL;  // the other thread may be first
    while (code == HCCL_E_UNAVAIL) code = HcclCommInitRootInfo(2, &info, 0, &comm);
    EXPECT_EQ(code, HCCL_SUCCESS) << RecentError();
    EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  });
  std::jthread late([&] {
    refused.wait();
    ASSERT_EQ(aclrtSetDevice(1), ACL_SUCCESS);
    HcclComm comm = nullptr;
    EXPECT_EQ(HcclCommInitRootInfo(2, &info, 1, &comm), HCCL_SUCCESS) << RecentError();
    EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  });
  // Until the waiting thread is inside, a communicator of one succeeds; after that it is refused.
  HcclResult code = HCCL_SUCCESS;
  for (int attempt = 0; attempt < 1000 && code == HCCL_SUCCESS; ++attempt) {
    const HcclRootInfo mine = NewRootInfo();
    HcclComm comm = nullptr;
    code = HcclCommInitRootInfo(1, &mine, 0, &comm);
    if (code == HCCL_SUCCESS) {
      EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
    }
  }
  EXPECT_EQ(code, HCCL_E_UNAVAIL);
  EXPECT_EQ(CheckWords(RecentError(), {"another thread", "device 0"}), "");
  refused.count_down();
}

TEST_F(MembershipOfThreads, ADeviceIsNeeded) {
  const HcclRootInfo info = NewRootInfo();
  std::jthread([&] {
    HcclRootInfo made{};
    HcclComm comm = nullptr;
    EXPECT_EQ(HcclGetRootInfo(&made), HCCL_E_RUNTIME);
    EXPECT_EQ(CheckWords(RecentError(), {"aclrtSetDevice"}), "");
    EXPECT_EQ(HcclCommInitRootInfo(1, &info, 0, &comm), HCCL_E_RUNTIME);
  });
}

TEST_F(MembershipOfThreads, WrongPointersHandlesAndRootInfosAreRefused) {
  HcclRootInfo info = NewRootInfo();
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclGetRootInfo(nullptr), HCCL_E_PTR);
  EXPECT_EQ(HcclCommInitRootInfo(1, nullptr, 0, &comm), HCCL_E_PTR);
  EXPECT_EQ(HcclCommInitRootInfo(1, &info, 0, nullptr), HCCL_E_PTR);
  EXPECT_EQ(HcclCommInitRootInfo(0, &info, 0, &comm), HCCL_E_PARA);
  EXPECT_EQ(HcclCommDestroy(nullptr), HCCL_E_PTR);
  EXPECT_EQ(HcclCommDestroy(&info), HCCL_E_PARA) << "not a live communicator";
  info.internal[0] ^= 1;
  EXPECT_EQ(HcclCommInitRootInfo(1, &info, 0, &comm), HCCL_E_PARA);
  EXPECT_EQ(CheckWords(RecentError(), {"HcclGetRootInfo"}), "");
}

TEST_F(MembershipOfThreads, TheConfigIsReadUpToItsSize) {
  const HcclRootInfo info = NewRootInfo();
  HcclCommConfig config = SmallConfig("named");
  HcclComm comm = nullptr;
  config.reserved[8] = 0;  // the magic word
  EXPECT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm), HCCL_E_PARA);
  EXPECT_EQ(CheckWords(RecentError(), {"0xf0f0f0f0", "HcclCommConfigInit"}), "");

  config = SmallConfig("named");
  const size_t before_the_name = offsetof(HcclCommConfig, hcclCommName);
  std::memcpy(config.reserved, &before_the_name, sizeof(before_the_name));
  ASSERT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm), HCCL_SUCCESS) << RecentError();
  EXPECT_NE(NameOf(comm), "named") << "a field beyond the caller's struct was read";
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);

  config = SmallConfig("named");
  const size_t longer = 2232;
  std::memcpy(config.reserved, &longer, sizeof(longer));
  const HcclRootInfo again = NewRootInfo();
  ASSERT_EQ(HcclCommInitRootInfoConfig(1, &again, 0, &config, &comm), HCCL_SUCCESS) << RecentError();
  EXPECT_EQ(NameOf(comm), "named");
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
}

TEST_F(MembershipOfThreads, DeterministicIsTheOnlyConfig) {
  HcclConfigValue value{1};
  EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_SUCCESS);
  value.value = 7;
  EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_E_PARA);
  EXPECT_EQ(HcclSetConfig(HCCL_CONFIG_RESERVED, value), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), HCCL_SUCCESS);
  EXPECT_EQ(value.value, 1);
  value.value = 0;
  EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_SUCCESS);
  EXPECT_EQ(HcclGetCommConfigCapability(), static_cast<uint32_t>(HCCL_COMM_CONFIG_RESERVED));
  EXPECT_STREQ(HcclGetErrorString(HCCL_E_TIMEOUT), "time-out");
  EXPECT_STREQ(HcclGetErrorString(static_cast<HcclResult>(999)), "unknown HcclResult");
}

TEST_F(MembershipOfThreads, MissingFeaturesAreReported) {
  WithComm(1, [](uint32_t, HcclComm comm) {
    EXPECT_EQ(HcclCommResume(comm), HCCL_SUCCESS);
    EXPECT_EQ(HcclCommSuspend(comm), HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(HcclCommSetMemoryRange(comm, comm, 64, 0, 0), HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(CheckWords(RecentError(), {"HcclCommSetMemoryRange", "without registration"}), "");
    HcclComm other = nullptr;
    EXPECT_EQ(HcclCommInitClusterInfo("table.json", 0, &other), HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(CheckWords(RecentError(), {"table.json", "HcclGetRootInfo"}), "");
  });
}

TEST_F(MembershipOfThreads, SubCommunicatorsOfEvenAndOddRanks) {
  WithComm(4, [](uint32_t rank, HcclComm comm) {
    std::vector<uint32_t> ranks{rank % 2, rank % 2 + 2};
    HcclCommConfig config = SmallConfig();
    HcclComm sub = nullptr;
    ASSERT_EQ(HcclCreateSubCommConfig(&comm, 2, ranks.data(), 7 + rank % 2, rank / 2, &config, &sub), HCCL_SUCCESS)
        << RecentError();
    uint32_t sub_rank = 99;
    EXPECT_EQ(HcclGetRankId(sub, &sub_rank), HCCL_SUCCESS);
    EXPECT_EQ(sub_rank, rank / 2);
    EXPECT_EQ(NameOf(sub), "world_sub_" + std::to_string(7 + rank % 2));
    HcclComm nested = nullptr;
    EXPECT_EQ(HcclCreateSubCommConfig(&sub, 2, ranks.data(), 9, rank / 2, &config, &nested), HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(HcclCommDestroy(sub), HCCL_SUCCESS);
  });
}

TEST_F(MembershipOfThreads, RanksThatAreNotMembersGetNone) {
  WithComm(3, [](uint32_t rank, HcclComm comm) {
    std::vector<uint32_t> ranks{0, 2};
    HcclCommConfig config = SmallConfig("chosen");
    HcclComm sub = &config;
    if (rank == 1) {
      EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, nullptr, 0xFFFFFFFF, 0, &config, &sub), HCCL_SUCCESS);
      EXPECT_EQ(sub, nullptr);
      return;
    }
    ASSERT_EQ(HcclCreateSubCommConfig(&comm, 2, ranks.data(), 1, rank / 2, &config, &sub), HCCL_SUCCESS)
        << RecentError();
    EXPECT_EQ(NameOf(sub), "chosen");
    EXPECT_EQ(HcclCommDestroy(sub), HCCL_SUCCESS);
  });
}

TEST_F(MembershipOfThreads, WrongSubCommunicatorArgumentsAreRefused) {
  WithComm(2, [](uint32_t rank, HcclComm comm) {
    HcclCommConfig config = SmallConfig();
    HcclComm sub = nullptr;
    const auto create = [&](std::vector<uint32_t> ranks, uint32_t sub_rank) {
      return HcclCreateSubCommConfig(&comm, static_cast<uint32_t>(ranks.size()), ranks.data(), 1, sub_rank, &config,
                                     &sub);
    };
    EXPECT_EQ(create({0, 5}, rank), HCCL_E_PARA) << "rank 5 of 2";
    EXPECT_EQ(create({1, 0}, 1 - rank), HCCL_E_PARA) << "not ascending";
    EXPECT_EQ(create({0, 1}, 1 - rank), HCCL_E_PARA) << "the other rank's index";
    EXPECT_EQ(CheckWords(RecentError(), {"subCommRankId", "[0,1]"}), "");
    EXPECT_EQ(create({0, 1, 2}, rank), HCCL_E_PARA) << "more ranks than exist";
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, nullptr, 1, rank, &config, &sub), HCCL_E_PTR);
  });
}

TEST_F(MembershipOfThreads, MembersThatDifferOnASubCommunicatorAreToldBothLists) {
  WithComm(3, [](uint32_t rank, HcclComm comm) {
    std::vector<uint32_t> ranks{0, 1, 2};
    if (rank == 2) ranks = {1, 2};
    HcclCommConfig config = SmallConfig();
    HcclComm sub = nullptr;
    const auto count = static_cast<uint32_t>(ranks.size());
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, count, ranks.data(), 3, rank == 2 ? 1 : rank, &config, &sub), HCCL_E_PARA);
    EXPECT_EQ(CheckWords(RecentError(), {"nRanks 3", "nRanks 2"}), "");
  });
}

}  // namespace
}  // namespace membership_test
