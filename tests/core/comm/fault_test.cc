// A peer that dies: what the survivor's error says. Ranks are forked processes without mpirun, which would
// kill the survivors itself; the parent does not use ACL, so it can fork repeatedly.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/communicator.h"
#include "core/comm/hccl_call.h"
#include "core/device/buffer.h"
#include "core/device/cann_declarations.h"
#include "core/device/device.h"

namespace trireme {
namespace {

constexpr int kRanks = 2;
constexpr DType kType = DType::kFp32;
constexpr size_t kCount = 1000;

// State that the ranks share, in memory mapped by all of them.
struct Meeting {
  std::atomic<bool> root_info_is_there{false};
  HcclRootInfo root_info;
  std::atomic<int> joined{0};
  std::atomic<bool> victim_may_die{false};
  char text[4096] = "";  // the surviving rank's message to the parent
};

void AwaitTrue(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

OwnedHcclComm Join(int rank, Meeting& meeting) {
  if (rank == 0) {
    HcclCall(HcclGetRootInfo(&meeting.root_info), "HcclGetRootInfo");
    meeting.root_info_is_there = true;
  }
  AwaitTrue([&] { return meeting.root_info_is_there.load(); });
  HcclComm comm = nullptr;
  HcclCall(HcclCommInitRootInfo(kRanks, &meeting.root_info, rank, &comm), "HcclCommInitRootInfo");
  ++meeting.joined;
  AwaitTrue([&] { return meeting.joined == kRanks; });
  return OwnedHcclComm(comm);
}

using RankBody = std::function<void(Communicator&, Meeting&)>;

[[noreturn]] void RunRank(int rank, Meeting& meeting, const RankBody& body) {
  const Device device(rank);
  IssueSlot slot;
  Ledger ledger;
  const int number = ledger.AddGroup("dp", {0, 1});
  Communicator communicator({"dp", {0, 1}, rank, number}, Join(rank, meeting), slot, ledger);
  body(communicator, meeting);
  _exit(0);  // the group is broken: wait for nothing
}

// Runs one process per rank; returns the message left in the shared state. Rank 1 must have died by SIGKILL.
std::string RunRanks(const RankBody& survivor, const RankBody& victim) {
  void* shared = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Meeting& meeting = *new (shared) Meeting;
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t process = fork();
    if (process == 0) RunRank(rank, meeting, rank == 0 ? survivor : victim);
    processes.push_back(process);
  }
  int status = 0;
  EXPECT_EQ(waitpid(processes[1], &status, 0), processes[1]);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the victim should have died by a signal; its status is " << status;
  EXPECT_EQ(waitpid(processes[0], &status, 0), processes[0]);
  EXPECT_EQ(status, 0) << "the survivor did not exit cleanly";
  const std::string text = meeting.text;
  munmap(shared, sizeof(Meeting));
  return text;
}

void Die(Communicator&, Meeting& meeting) {
  AwaitTrue([&] { return meeting.victim_may_die.load(); });
  kill(getpid(), SIGKILL);
}

// The kind and message of the error that `call` ends with, and whether it came soon enough.
void RecordError(Meeting& meeting, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  std::string text = "no error";
  try {
    call();
  } catch (const Error& error) {
    text = Concat(error.kind() == ErrorKind::kRemote ? "remote: " : "not remote: ", error.what());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (seconds > 5) text = Concat("only after ", seconds, " s: ", text);
  std::snprintf(meeting.text, sizeof meeting.text, "%s", text.c_str());
}

TEST(DeadPeer, IsARemoteErrorThatNamesGroupOperationNumberAndRank) {
  const std::string text = RunRanks(
      [](Communicator& group, Meeting& meeting) {
        const DeviceBuffer data(kCount * sizeof(float));
        RecordError(meeting, [&] {
          const Work work = group.AllReduce(data.data(), data.data(), kCount, kType, ReduceOp::kSum);
          meeting.victim_may_die = true;
          work.Wait();
        });
      },
      Die);
  EXPECT_EQ(text.rfind("remote: group dp, all_reduce number 1 on rank 0 (0 of 2 in the group) failed", 0), 0u) << text;
}

TEST(DeadPeer, FailsACallThatIsNotTheLatest) {
  const std::string text = RunRanks(
      [](Communicator& group, Meeting& meeting) {
        const DeviceBuffer data(kCount * sizeof(float));
        RecordError(meeting, [&] {
          const Work first = group.Broadcast(data.data(), kCount, kType, 1);
          const Work second = group.Barrier();
          meeting.victim_may_die = true;
          first.Wait();
          second.Wait();
        });
      },
      Die);
  EXPECT_EQ(text.rfind("remote: group dp, broadcast number 1", 0), 0u) << text;
}

TEST(DeadPeer, FailsLaterCallsToo) {
  const std::string text = RunRanks(
      [](Communicator& group, Meeting& meeting) {
        const DeviceBuffer data(kCount * sizeof(float));
        meeting.victim_may_die = true;
        RecordError(meeting, [&] { group.Barrier().Wait(); });
        RecordError(meeting, [&] { group.AllReduce(data.data(), data.data(), kCount, kType, ReduceOp::kSum).Wait(); });
      },
      Die);
  EXPECT_EQ(text.rfind("remote: group dp, all_reduce number 2", 0), 0u) << text;
}

}  // namespace
}  // namespace trireme
