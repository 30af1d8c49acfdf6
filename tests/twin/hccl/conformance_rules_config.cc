// Sub-communicators and the configuration struct: what may be created from what, and how structs of other
// versions are read.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/twin/hccl/conformance_threads.h"

namespace conformance {
namespace {

// The header of HcclCommConfig, common to every version.
struct ConfigHead {
  size_t size;
  uint32_t magic;
  uint32_t version;
  uint64_t reserved;
};

HcclCommConfig SmallConfig() {
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  config.hcclBufferSize = 4;
  return config;
}

void SetHead(void* config, size_t size, uint32_t magic, uint32_t version) {
  const ConfigHead head{size, magic, version, 0};
  std::memcpy(config, &head, sizeof(head));
}

// A communicator of one rank with the given configuration; stores its name in `name`.
HcclResult InitWith(HcclCommConfig* config, std::string* name) {
  EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  HcclRootInfo root{};
  EXPECT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS) << RecentError();
  HcclComm comm = nullptr;
  const HcclResult result = HcclCommInitRootInfoConfig(1, &root, 0, config, &comm);
  if (result == HCCL_SUCCESS) {
    char text[COMM_NAME_MAX_LENGTH] = {};
    EXPECT_EQ(HcclGetCommName(comm, text), HCCL_SUCCESS);
    *name = text;
    EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  }
  return result;
}

TEST(ConformanceConfig, AWrongMagicIsRefused) {
  HcclCommConfig config = SmallConfig();
  SetHead(&config, sizeof(config), 0xdeadbeef, HCCL_COMM_CONFIG_VERSION);
  std::string name;
  EXPECT_EQ(InitWith(&config, &name), HCCL_E_PARA);
  EXPECT_EQ(InitWith(nullptr, &name), HCCL_E_PTR);
}

TEST(ConformanceConfig, ANewerLargerStructIsReadAsFarAsItIsKnown) {
  constexpr size_t kNewerBytes = 2232;
  alignas(8) unsigned char newer[kNewerBytes];
  std::memset(newer, 0xEE, sizeof(newer));
  HcclCommConfig known = SmallConfig();
  std::strcpy(known.hcclCommName, "newer");
  std::memcpy(newer, &known, sizeof(known));
  SetHead(newer, sizeof(newer), HCCL_COMM_CONFIG_MAGIC_WORD, 10);
  std::string name;
  EXPECT_EQ(InitWith(reinterpret_cast<HcclCommConfig*>(newer), &name), HCCL_SUCCESS) << RecentError();
  EXPECT_EQ(name, "newer");
}

TEST(ConformanceConfig, AnOlderSmallerStructIsNotReadPastItsEnd) {
  HcclCommConfig config = SmallConfig();
  std::strcpy(config.hcclCommName, "past the end");
  SetHead(&config, offsetof(HcclCommConfig, hcclCommName), HCCL_COMM_CONFIG_MAGIC_WORD, 1);
  std::string name;
  EXPECT_EQ(InitWith(&config, &name), HCCL_SUCCESS) << RecentError();
  EXPECT_NE(name, "past the end");
  EXPECT_FALSE(name.empty());
}

TEST(ConformanceConfig, CapabilitiesCoverWhatTheHeaderNames) {
  EXPECT_GT(HcclGetCommConfigCapability(), static_cast<uint32_t>(HCCL_COMM_CONFIG_COMM_NAME));
}

TEST(ConformanceSubComm, CannotBeCreatedFromASubCommunicator) {
  RunRanks(2, [](Rank& rank) {
    HcclCommConfig config = SmallConfig();
    uint32_t members[] = {0, 1};
    HcclComm sub = nullptr, nested = nullptr;
    ASSERT_EQ(HcclCreateSubCommConfig(&rank.comm, 2, members, 1, rank.rank, &config, &sub), HCCL_SUCCESS)
        << RecentError();
    const HcclResult result = HcclCreateSubCommConfig(&sub, 2, members, 2, rank.rank, &config, &nested);
    EXPECT_TRUE(result == HCCL_E_NOT_SUPPORT || result == HCCL_E_PARA) << result;
    EXPECT_NE(RecentError(), "");
    EXPECT_EQ(HcclCommDestroy(sub), HCCL_SUCCESS);
  });
}

TEST(ConformanceSubComm, WrongMembersAreRefused) {
  RunRanks(2, [](Rank& rank) {
    HcclCommConfig config = SmallConfig();
    HcclComm sub = nullptr;
    uint32_t outside[] = {0, 5}, twice[] = {0, 0}, members[] = {0, 1}, unordered[] = {1, 0};
    EXPECT_EQ(HcclCreateSubCommConfig(&rank.comm, 2, outside, 1, rank.rank, &config, &sub), HCCL_E_PARA);
    EXPECT_EQ(HcclCreateSubCommConfig(&rank.comm, 2, twice, 1, rank.rank, &config, &sub), HCCL_E_PARA);
    EXPECT_EQ(HcclCreateSubCommConfig(&rank.comm, 2, unordered, 1, 1 - rank.rank, &config, &sub), HCCL_E_PARA);
    EXPECT_EQ(HcclCreateSubCommConfig(&rank.comm, 2, members, 1, 2, &config, &sub), HCCL_E_PARA) << "sub rank 2 of 2";
    EXPECT_EQ(HcclCreateSubCommConfig(&rank.comm, 2, members, 1, 1 - rank.rank, &config, &sub), HCCL_E_PARA)
        << "the list puts this rank elsewhere";
    EXPECT_EQ(HcclCreateSubCommConfig(nullptr, 2, members, 1, rank.rank, &config, &sub), HCCL_E_PTR);
    EXPECT_EQ(HcclCreateSubCommConfig(&rank.comm, 2, members, 1, rank.rank, &config, nullptr), HCCL_E_PTR);
  });
}

TEST(ConformanceSubComm, MembersThatDisagreeGetAnError) {
  RunRanks(3, [](Rank& rank) {
    HcclCommConfig config = SmallConfig();
    HcclComm sub = nullptr;
    uint32_t all[] = {0, 1, 2}, pair[] = {0, 1};
    HcclResult result;
    if (rank.rank == 0) {
      result = HcclCreateSubCommConfig(&rank.comm, 2, pair, 1, 0, &config, &sub);
    } else {
      result = HcclCreateSubCommConfig(&rank.comm, 3, all, 1, rank.rank, &config, &sub);
    }
    EXPECT_NE(result, HCCL_SUCCESS) << "rank " << rank.rank << " joined a group on which not all agree";
  });
}

}  // namespace
}  // namespace conformance
