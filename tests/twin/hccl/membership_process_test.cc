// Communicators of processes: they form, they know their members, they detect members that die, never arrive
// or disagree with the others. No data moves here.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "acl/acl.h"
#include "tests/twin/hccl/membership_processes.h"

namespace membership_test {
namespace {

void ExpectAllWell(Processes& processes, uint32_t count) {
  for (uint32_t rank = 0; rank < count; ++rank) EXPECT_EQ(processes.Wait(rank), "") << "rank " << rank;
}

std::string CheckMember(HcclComm comm, uint32_t rank, uint32_t size) {
  uint32_t found_rank = 99;
  uint32_t found_size = 99;
  HcclResult error = HCCL_E_INTERNAL;
  std::string wrong = Check(HcclGetRankId(comm, &found_rank), HCCL_SUCCESS, "HcclGetRankId");
  wrong += Check(HcclGetRankSize(comm, &found_size), HCCL_SUCCESS, "HcclGetRankSize");
  wrong += Check(HcclGetCommAsyncError(comm, &error), HCCL_SUCCESS, "HcclGetCommAsyncError");
  if (found_rank != rank || found_size != size || error != HCCL_SUCCESS) {
    wrong += "rank " + std::to_string(found_rank) + " of " + std::to_string(found_size) + ", async error " +
             std::to_string(error) + "\n";
  }
  return wrong;
}

std::string JoinAndLeave(Stage& stage, uint32_t slot, uint32_t rank, uint32_t size) {
  const HcclRootInfo info = stage.RootInfo(slot, rank);
  HcclComm comm = nullptr;
  std::string wrong = Check(HcclCommInitRootInfo(size, &info, rank, &comm), HCCL_SUCCESS, "HcclCommInitRootInfo");
  if (!wrong.empty()) return wrong;
  wrong += CheckMember(comm, rank, size);
  wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "HcclCommDestroy");
  return wrong;
}

class MembershipOfProcesses : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    SetConnectTimeout("20");
    setenv("HCCL_BUFFSIZE", "1", 1);
    if (std::strcmp(GetParam(), "tcp") == 0) setenv("TWIN_HCCL_TRANSPORT", "tcp", 1);
  }
  void TearDown() override { unsetenv("TWIN_HCCL_TRANSPORT"); }
};
INSTANTIATE_TEST_SUITE_P(Transport, MembershipOfProcesses, ::testing::Values("memory", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(MembershipOfProcesses, EveryNumberOfRanksMeets) {
  for (const uint32_t size : {1u, 2u, 5u, 8u}) {
    Stage stage;
    Processes processes(size, [&](uint32_t rank) { return JoinAndLeave(stage, 0, rank, size); });
    ExpectAllWell(processes, size);
  }
}

TEST_P(MembershipOfProcesses, ManyCommunicatorsLiveSideBySide) {
  constexpr uint32_t kSize = 4;
  constexpr uint32_t kCommunicators = 24;
  Stage stage;
  Processes processes(kSize, [&](uint32_t rank) {
    std::string wrong;
    std::vector<HcclComm> comms(kCommunicators);
    std::set<std::string> names;
    for (uint32_t slot = 0; slot < kCommunicators; ++slot) {
      const HcclRootInfo info = stage.RootInfo(slot, rank);
      wrong += Check(HcclCommInitRootInfo(kSize, &info, rank, &comms[slot]), HCCL_SUCCESS, "init");
      char name[COMM_NAME_MAX_LENGTH] = {};
      wrong += Check(HcclGetCommName(comms[slot], name), HCCL_SUCCESS, "name");
      names.insert(name);
    }
    if (names.size() != kCommunicators) wrong += "names repeat\n";
    for (const HcclComm comm : comms) wrong += CheckMember(comm, rank, kSize);
    // Ranks leave in different orders, and none may mistake another's departure for a death.
    for (uint32_t i = 0; i < kCommunicators; ++i) {
      wrong += Check(HcclCommDestroy(comms[(i * 7 + rank) % kCommunicators]), HCCL_SUCCESS, "destroy");
    }
    return wrong;
  });
  ExpectAllWell(processes, kSize);
}

TEST_P(MembershipOfProcesses, EverySurvivorNoticesAKilledRank) {
  constexpr uint32_t kSize = 4;
  Stage stage;
  Processes processes(kSize, [&](uint32_t rank) -> std::string {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(kSize, &info, rank, &comm), HCCL_SUCCESS, "init");
    stage.Meet(kSize);
    if (rank == 2) kill(getpid(), SIGKILL);
    wrong += Check(AwaitAsyncError(comm), HCCL_E_REMOTE, "HcclGetCommAsyncError within 5 s");
    wrong += CheckWords(RecentError(), {"rank 2", "process"});
    wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroying a failed communicator");
    return wrong;
  });
  EXPECT_EQ(processes.Wait(2), "killed by signal 9");
  for (const uint32_t rank : {0u, 1u, 3u}) EXPECT_EQ(processes.Wait(rank), "") << "rank " << rank;
}

TEST_P(MembershipOfProcesses, AForkedChildDoesNotHideItsParentsDeath) {
  Stage stage;
  Processes processes(2, [&](uint32_t rank) -> std::string {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(2, &info, rank, &comm), HCCL_SUCCESS, "init");
    if (rank == 1) {
      const pid_t parent = getpid();
      if (fork() == 0) {
        kill(parent, SIGKILL);
        stage.Meet(2);  // stays alive until rank 0 has noticed
        _exit(0);
      }
      pause();
    }
    wrong += Check(AwaitAsyncError(comm), HCCL_E_REMOTE, "HcclGetCommAsyncError");
    wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroy");
    stage.Meet(2);
    return wrong;
  });
  ExpectAllWell(processes, 1);
}

TEST_P(MembershipOfProcesses, ACleanDepartureIsNotAFailure) {
  constexpr uint32_t kSize = 3;
  Stage stage;
  Processes processes(kSize, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(kSize, &info, rank, &comm), HCCL_SUCCESS, "init");
    if (rank == 1) {
      wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroy");
      return wrong;
    }
    usleep(500'000);  // rank 1 has left and its process has ended by now; if not, the test proves less but
                      // does not fail
    HcclResult error = HCCL_E_INTERNAL;
    wrong += Check(HcclGetCommAsyncError(comm, &error), HCCL_SUCCESS, "query");
    wrong += Check(error, HCCL_SUCCESS, "the asynchronous error after a clean departure");
    wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroy");
    return wrong;
  });
  ExpectAllWell(processes, kSize);
}

TEST_P(MembershipOfProcesses, ARankThatDiesWhileOthersJoinEndsTheirWait) {
  constexpr uint32_t kSize = 3;
  Stage stage;
  Processes processes(kSize, [&](uint32_t rank) -> std::string {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm comm = nullptr;
    if (rank == 1) {
      alarm(1);  // kills the process while it waits for rank 2, which never arrives
      HcclCommInitRootInfo(kSize, &info, rank, &comm);
      return "rank 1 should have been killed";
    }
    if (rank == 2) return "";
    std::string wrong = Check(HcclCommInitRootInfo(kSize, &info, rank, &comm), HCCL_E_REMOTE, "init");
    wrong += CheckWords(RecentError(), {"rank 1", "disconnected"});
    return wrong;
  });
  EXPECT_EQ(processes.Wait(0), "");
  EXPECT_EQ(processes.Wait(1), "killed by signal 14");
}

TEST(MembershipArguments, MissingRanksAreNamedAfterTheTimeout) {
  SetConnectTimeout("2");
  Stage stage;
  Processes processes(4, [&](uint32_t rank) -> std::string {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    if (rank == 1 || rank == 3) return "";
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(4, &info, rank, &comm), HCCL_E_TIMEOUT, "init");
    wrong += CheckWords(RecentError(), {"never joined", "1, 3", "HCCL_CONNECT_TIMEOUT"});
    return wrong;
  });
  ExpectAllWell(processes, 4);
}

TEST(MembershipArguments, DifferingSizesAreNamedToBoth) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(3, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(rank == 1 ? 2 : 3, &info, rank, &comm), HCCL_E_PARA, "init");
    wrong += CheckWords(RecentError(), {"nRanks 2", "nRanks 3", "rank 1"});
    stage.Meet(3);  // the rendezvous ends with the root's process
    return wrong;
  });
  ExpectAllWell(processes, 3);
}

TEST(MembershipArguments, ADuplicateRankIsNamedWithBothItsOwners) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(3, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(3, &info, rank == 2 ? 1 : rank, &comm), HCCL_E_PARA, "init");
    wrong += CheckWords(RecentError(), {"same rank", "rank 1", "device 1", "device 2"});
    stage.Meet(3);  // the rendezvous ends with the root's process
    return wrong;
  });
  ExpectAllWell(processes, 3);
}

TEST(MembershipArguments, ARankBeyondTheSizeIsRefusedForAll) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(2, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(2, &info, rank == 1 ? 5 : 0, &comm), HCCL_E_PARA, "init");
    wrong += CheckWords(RecentError(), {"rank 5", "nRanks 2"});
    stage.Meet(2);  // the rendezvous ends with the root's process
    return wrong;
  });
  ExpectAllWell(processes, 2);
}

TEST(MembershipArguments, DifferingBufferSizesAreNamedToBoth) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(2, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    config.hcclBufferSize = 3 + rank;
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfoConfig(2, &info, rank, &config, &comm), HCCL_E_PARA, "init");
    wrong += CheckWords(RecentError(), {"hcclBufferSize 3 MB", "hcclBufferSize 4 MB"});
    stage.Meet(2);  // the rendezvous ends with the root's process
    return wrong;
  });
  ExpectAllWell(processes, 2);
}

TEST(MembershipArguments, AUsedRootInfoIsRefused) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(1, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    HcclComm first = nullptr;
    HcclComm second = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(1, &info, 0, &first), HCCL_SUCCESS, "first init");
    // Refused at its port, or by whoever listens there now.
    if (HcclCommInitRootInfo(1, &info, 0, &second) == HCCL_SUCCESS) wrong += "a used root info was accepted again\n";
    wrong += CheckWords(RecentError(), {"rendezvous"});
    wrong += Check(HcclCommDestroy(first), HCCL_SUCCESS, "destroy");
    return wrong;
  });
  ExpectAllWell(processes, 1);
}

TEST(MembershipMemory, ARankWithoutMemoryTellsTheOthers) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(2, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    void* taken = nullptr;
    std::string wrong;
    if (rank == 1) {
      size_t free = 0;
      size_t total = 0;
      aclrtGetMemInfo(ACL_HBM_MEM, &free, &total);
      if (aclrtMalloc(&taken, free - (3 << 20), ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        wrong = "no memory was charged\n";
    }
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    config.hcclBufferSize = 4;
    HcclComm comm = nullptr;
    const HcclResult wanted = rank == 1 ? HCCL_E_MEMORY : HCCL_E_REMOTE;
    wrong += Check(HcclCommInitRootInfoConfig(2, &info, rank, &config, &comm), wanted, "init");
    wrong += CheckWords(RecentError(), {"8 MB", "device 1"});
    stage.Meet(2);  // the rendezvous ends with the root's process
    return wrong;
  });
  ExpectAllWell(processes, 2);
}

TEST(MembershipMemory, DestroyFreesTheBuffers) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(1, [&](uint32_t rank) {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    size_t before = 0, during = 0, after = 0, total = 0;
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    config.hcclBufferSize = 100;
    HcclComm comm = nullptr;
    aclrtGetMemInfo(ACL_HBM_MEM, &before, &total);
    std::string wrong = Check(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm), HCCL_SUCCESS, "init");
    aclrtGetMemInfo(ACL_HBM_MEM, &during, &total);
    wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroy");
    aclrtGetMemInfo(ACL_HBM_MEM, &after, &total);
    if (before - during != size_t{200} << 20) wrong += "taken: " + std::to_string(before - during) + " bytes\n";
    if (before != after) wrong += "not freed: " + std::to_string(before - after) + " bytes\n";
    return wrong;
  });
  ExpectAllWell(processes, 1);
}

}  // namespace
}  // namespace membership_test
