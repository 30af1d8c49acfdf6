// What a communicator's members can access of each other: the board, the device memory, the data sockets;
// also with several ranks in one process. White-box, since no public function tells.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "acl/acl.h"
#include "tests/twin/hccl/membership_processes.h"
#include "twin/acl/internal.h"
#include "twin/hccl/membership/group.h"

namespace membership_test {
namespace {

// The rank's group, and the error on the way to it.
twin::Group* JoinAs(Stage& stage, uint32_t rank, uint32_t size, std::string* wrong) {
  const HcclRootInfo info = stage.RootInfo(0, rank);
  HcclComm comm = nullptr;
  *wrong += Check(HcclCommInitRootInfo(size, &info, rank, &comm), HCCL_SUCCESS, "init");
  return twin::FindGroup(comm);
}

// Each member has written its rank + 1 into its slot of the board; exactly the members of this host are
// there.
std::string CheckBoard(const twin::Group& group) {
  std::string wrong;
  for (const twin::Peer& peer : group.peers) {
    const int found = std::to_integer<int>(group.board[peer.rank]);
    const int wanted = peer.same_host ? static_cast<int>(peer.rank) + 1 : 0;
    if (found != wanted) {
      wrong += "rank " + std::to_string(group.rank) + " finds " + std::to_string(found) + " of rank " +
               std::to_string(peer.rank) + " on the board, wanted " + std::to_string(wanted) + "\n";
    }
  }
  return wrong;
}

// After the first 64 bytes, the board holds the offset of each member's allocation in its arena.
std::string CheckArenas(const twin::Group& group) {
  std::string wrong;
  for (const twin::Peer& peer : group.peers) {
    if (peer.same_process) {
      if (peer.arena != nullptr) wrong += "an arena of this process is mapped a second time\n";
      continue;
    }
    size_t offset = 0;
    std::memcpy(&offset, group.board + 64 + sizeof(offset) * peer.rank, sizeof(offset));
    uint32_t found = 0;
    if (peer.arena == nullptr || offset + sizeof(found) > peer.arena_bytes) {
      wrong += "the memory of rank " + std::to_string(peer.rank) + " is not mapped\n";
      continue;
    }
    std::memcpy(&found, peer.arena + offset, sizeof(found));
    if (found != 1000 + peer.rank) wrong += "found " + std::to_string(found) + " in the memory of a peer\n";
  }
  return wrong;
}

std::string ShareMemory(Stage& stage, uint32_t rank, uint32_t size) {
  std::string wrong;
  twin::Group* group = JoinAs(stage, rank, size, &wrong);
  if (group == nullptr) return wrong;
  void* memory = nullptr;
  if (aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return "cannot allocate device memory";
  const uint32_t value = 1000 + rank;
  std::memcpy(memory, &value, sizeof(value));
  const size_t offset = twin::ArenaOffset(group->device, memory, sizeof(value));
  group->board[rank] = static_cast<std::byte>(rank + 1);
  std::memcpy(group->board + 64 + sizeof(offset) * rank, &offset, sizeof(offset));
  stage.Meet(size);
  if (!group->one_host || group->host_members != size) wrong += "not all members count as being on this host\n";
  wrong += CheckBoard(*group);
  wrong += CheckArenas(*group);
  stage.Meet(size);
  wrong += Check(HcclCommDestroy(group), HCCL_SUCCESS, "destroy");
  aclrtFree(memory);
  return wrong;
}

TEST(MembershipMemory, ProcessesOfOneHostShareBoardAndDeviceMemory) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(4, [&](uint32_t rank) { return ShareMemory(stage, rank, 4); });
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(processes.Wait(rank), "") << "rank " << rank;
}

TEST(MembershipMemory, ProcessesWithSeveralRanksEach) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(2, [&](uint32_t process) {
    std::string reports[2];
    {
      std::vector<std::jthread> threads;
      for (uint32_t thread = 0; thread < 2; ++thread) {
        threads.emplace_back([&, thread] {
          aclrtSetDevice(static_cast<int32_t>(thread));
          // Ranks 0 and 2 in the first process, 1 and 3 in the second: both can access the board's creator.
          reports[thread] = ShareMemory(stage, process + 2 * thread, 4);
        });
      }
    }
    return reports[0] + reports[1];
  });
  for (uint32_t process = 0; process < 2; ++process) EXPECT_EQ(processes.Wait(process), "");
}

// Sends one byte to every peer over its data socket, and receives one.
std::string TradeBytes(const twin::Group& group) {
  std::string wrong;
  const char sent = static_cast<char>(group.rank);
  for (const twin::Peer& peer : group.peers) {
    if (peer.rank == group.rank) continue;
    if (peer.same_host || peer.arena != nullptr || peer.data_socket < 0)
      return "a peer is not reached over TCP alone\n";
    if (send(peer.data_socket, &sent, 1, MSG_NOSIGNAL) != 1) wrong += "a byte was not sent\n";
  }
  for (const twin::Peer& peer : group.peers) {
    if (peer.rank == group.rank) continue;
    pollfd readable{peer.data_socket, POLLIN, 0};
    char received = 99;
    if (poll(&readable, 1, 20'000) != 1 || recv(peer.data_socket, &received, 1, 0) != 1 ||
        received != static_cast<char>(peer.rank)) {
      wrong += "rank " + std::to_string(peer.rank) + " sent " + std::to_string(received) + "\n";
    }
  }
  return wrong;
}

TEST(MembershipMemory, ProcessesOfDifferentHostsHaveDataSockets) {
  SetConnectTimeout("20");
  setenv("TWIN_HCCL_TRANSPORT", "tcp", 1);
  Stage stage;
  Processes processes(3, [&](uint32_t rank) {
    std::string wrong;
    twin::Group* group = JoinAs(stage, rank, 3, &wrong);
    if (group == nullptr) return wrong;
    if (group->one_host || group->host_members != 1) wrong += "another process counts as being on this host\n";
    wrong += TradeBytes(*group);
    wrong += Check(HcclCommDestroy(group), HCCL_SUCCESS, "destroy");
    return wrong;
  });
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.Wait(rank), "") << "rank " << rank;
  unsetenv("TWIN_HCCL_TRANSPORT");
}

TEST(MembershipMemory, ARankThatHasLeftIsRemembered) {
  SetConnectTimeout("20");
  Stage stage;
  Processes processes(2, [&](uint32_t rank) {
    std::string wrong;
    twin::Group* group = JoinAs(stage, rank, 2, &wrong);
    if (group == nullptr) return wrong;
    if (rank == 0) {
      // The count is raised after the flag: waiting for the flag could see the one without the other.
      for (int naps = 0; naps < 5000 && group->left_count() == 0; ++naps) usleep(1000);
      if (!group->has_left(1) || group->left_count() != 1) wrong += "the goodbye of rank 1 did not arrive\n";
      wrong += Check(group->failure(), HCCL_SUCCESS, "a clean departure");
    }
    wrong += Check(HcclCommDestroy(group), HCCL_SUCCESS, "destroy");
    return wrong;
  });
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(processes.Wait(rank), "") << "rank " << rank;
}

// The memory file counts as a file, and the kernel sends a signal for one that exceeds the limit.
TEST(DeviceMemoryFile, AFileSizeLimitIsReportedNotFatal) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Processes processes(1, [](uint32_t) -> std::string {
    void* memory = nullptr;
    if (aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) return "memory beyond the limit";
    return CheckWords(RecentError(), {"device 0", "file size limit is 1048576", "ulimit -f"});
  });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(processes.Wait(0), "");
}

}  // namespace
}  // namespace membership_test
