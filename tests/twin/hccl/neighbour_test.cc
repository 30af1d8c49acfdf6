// Several jobs of one user on one host: they form concurrently, whatever ports others use, and a rank of one
// job that connects to another's listener with its own root info disturbs neither.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "tests/twin/hccl/membership_processes.h"
#include "twin/hccl/membership/rootinfo.h"
#include "twin/hccl/settings.h"
#include "twin/hccl/wire/sockets.h"

namespace membership_test {
namespace {

constexpr uint32_t kNeighbours = 2;

class Neighbours : public ::testing::Test {
 protected:
  void SetUp() override {
    SetConnectTimeout("30");
    setenv("HCCL_BUFFSIZE", "1", 1);
    setenv("TWIN_HCCL_ONE_HOST", "1", 1);
  }
  void TearDown() override {
    for (const char* name : {"TWIN_HCCL_TRANSPORT", "TWIN_HCCL_ONE_HOST", "HCCL_IF_BASE_PORT"}) unsetenv(name);
  }
};

// A job that creates so many communicators, sums over each, and destroys them.
std::string Work(Stage& stage, uint32_t rank, uint32_t communicators) {
  std::string wrong;
  aclrtStream stream = nullptr;
  if (aclrtCreateStream(&stream) != ACL_SUCCESS) return "cannot create a stream";
  for (uint32_t slot = 0; slot < communicators; ++slot) {
    const HcclRootInfo info = stage.RootInfo(slot, rank);
    HcclComm comm = nullptr;
    wrong += Check(HcclCommInitRootInfo(kNeighbours, &info, rank, &comm), HCCL_SUCCESS, "init");
    if (!wrong.empty()) return wrong;
    float value = static_cast<float>(rank + 1);
    wrong += Check(HcclAllReduce(&value, &value, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream), HCCL_SUCCESS,
                   "all-reduce");
    if (aclrtSynchronizeStream(stream) != ACL_SUCCESS || value != 3) wrong += "the sum is wrong\n";
    wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroy");
  }
  aclrtDestroyStream(stream);
  return wrong;
}

TEST_F(Neighbours, JobsOfOneUserFormSideBySide) {
  constexpr uint32_t kJobs = 3;
  for (const char* transport : {"memory", "tcp"}) {
    if (std::string(transport) == "tcp") setenv("TWIN_HCCL_TRANSPORT", "tcp", 1);
    std::vector<std::unique_ptr<Stage>> stages;
    std::vector<std::unique_ptr<Processes>> jobs;
    for (uint32_t job = 0; job < kJobs; ++job) {
      Stage* stage = stages.emplace_back(std::make_unique<Stage>()).get();
      jobs.push_back(
          std::make_unique<Processes>(kNeighbours, [stage](uint32_t rank) { return Work(*stage, rank, 8); }));
    }
    for (uint32_t job = 0; job < kJobs; ++job) {
      for (uint32_t rank = 0; rank < kNeighbours; ++rank) {
        EXPECT_EQ(jobs[job]->Wait(rank), "") << transport << ", job " << job << ", rank " << rank;
      }
    }
  }
}

// Somebody else listens on every port that HCCL tries first, and speaks another protocol.
TEST_F(Neighbours, OccupiedPortsDoNotMatter) {
  constexpr uint16_t kBase = 42600;
  std::vector<twin::Fd> taken;
  for (uint16_t port = kBase; port < kBase + twin::kPortCount; ++port) {
    twin::Fd& listener = taken.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) listen(listener.get(), 8);
  }
  setenv("HCCL_IF_BASE_PORT", std::to_string(kBase).c_str(), 1);
  setenv("TWIN_HCCL_TRANSPORT", "tcp", 1);
  Stage stage;
  Processes ranks(kNeighbours, [&](uint32_t rank) { return Work(stage, rank, 2); });
  for (uint32_t rank = 0; rank < kNeighbours; ++rank) EXPECT_EQ(ranks.Wait(rank), "") << "rank " << rank;
}

// A rank of another job arrives with a root info whose port now belongs to this job: it is refused with a
// message that reveals nothing of this job; this job forms.
TEST_F(Neighbours, AnotherJobsRankIsRefusedAndDisturbsNobody) {
  Stage ours, theirs;
  Processes ranks(kNeighbours + 1, [&](uint32_t rank) -> std::string {
    if (rank < kNeighbours) {
      const HcclRootInfo info = ours.RootInfo(0, rank);
      if (rank == 1) ours.Meet(2);  // the other job's rank has tried
      HcclComm comm = nullptr;
      std::string wrong = Check(HcclCommInitRootInfo(kNeighbours, &info, rank, &comm), HCCL_SUCCESS, "init");
      if (wrong.empty()) wrong += Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroy");
      return wrong;
    }
    const twin::RootInfo here = twin::DecodeRootInfo(ours.RootInfo(0, 1));
    twin::RootInfo stale = twin::DecodeRootInfo(theirs.RootInfo(0, 0));
    stale.address = here.address;
    stale.port = here.port;
    HcclRootInfo info;
    twin::EncodeRootInfo(stale, &info);
    HcclComm comm = nullptr;
    std::string wrong = Check(HcclCommInitRootInfo(kNeighbours, &info, 0, &comm), HCCL_E_PARA, "another job's init");
    wrong += CheckWords(RecentError(), {"rendezvous", "does not know this root info"});
    if (RecentError().find(here.id) != std::string::npos) wrong += "the message reveals this job's id\n";
    ours.Meet(2);
    return wrong;
  });
  for (uint32_t rank = 0; rank <= kNeighbours; ++rank) EXPECT_EQ(ranks.Wait(rank), "") << "rank " << rank;
}

// If all ranks are on this host, nothing listens where another host could connect.
TEST_F(Neighbours, OneHostListensOnTheLoopbackAlone) {
  Stage stage;
  Processes ranks(1, [&](uint32_t rank) -> std::string {
    const twin::RootInfo root = twin::DecodeRootInfo(stage.RootInfo(0, rank));
    return root.address == "127.0.0.1" ? "" : "it listens on " + root.address;
  });
  EXPECT_EQ(ranks.Wait(0), "");
}

}  // namespace
}  // namespace membership_test
