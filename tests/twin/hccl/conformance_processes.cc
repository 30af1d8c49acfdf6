// Ranks as processes; see conformance_processes.h.
#include "tests/twin/hccl/conformance_processes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

namespace conformance {
namespace {

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

void NeedAcl(aclError code, const char* call) {
  if (code == ACL_SUCCESS) return;
  std::fprintf(stderr, "%s: %d: %s\n", call, code, RecentError().c_str());
  _exit(9);
}

[[noreturn]] void RunChild(Member member, const std::function<void(Member&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives the test
  NeedAcl(aclInit(nullptr), "aclInit");
  NeedAcl(aclrtSetDevice(static_cast<int32_t>(member.rank)), "aclrtSetDevice");
  NeedAcl(aclrtCreateStream(&member.stream), "aclrtCreateStream");
  body(member);
  if (member.comm != nullptr && HcclCommDestroy(member.comm) != HCCL_SUCCESS) {
    std::fprintf(stderr, "rank %u: HcclCommDestroy: %s\n", member.rank, RecentError().c_str());
    _exit(8);
  }
  aclrtDestroyStreamForce(member.stream);
  aclrtResetDevice(static_cast<int32_t>(member.rank));
  aclFinalize();
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

HcclResult Member::Join() {
  if (rank == 0) {
    const HcclResult made = HcclGetRootInfo(&shared->root);
    if (made != HCCL_SUCCESS) return made;
    shared->root_ready = 1;
  }
  while (shared->root_ready == 0) Nap();
  return HcclCommInitRootInfo(size, &shared->root, rank, &comm);
}

void Member::Reached(uint32_t stage) const { report().stage = stage; }

void Member::AwaitRelease(uint32_t stage) const {
  while (shared->released < stage) Nap();
}

void Member::Linger() const {
  for (;;) Nap();
}

void Member::Record(HcclResult call, aclError stream_result) const {
  Report& mine = report();
  mine.at = Seconds();
  mine.call = call;
  mine.stream = stream_result;
  std::snprintf(mine.text, sizeof(mine.text), "%s", RecentError().c_str());
  const double limit = Seconds() + 5;
  HcclResult async = HCCL_SUCCESS;
  while (comm != nullptr && async == HCCL_SUCCESS && Seconds() < limit) {
    if (HcclGetCommAsyncError(comm, &async) != HCCL_SUCCESS) async = HCCL_E_INTERNAL;
    if (async == HCCL_SUCCESS) Nap();
  }
  mine.async = async;
}

Processes::Processes(uint32_t size, const Environment& environment, const std::function<void(Member&)>& body,
                     const std::function<void(uint32_t)>& prepare) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared_ = new (memory) Shared{};
  for (uint32_t rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw std::bad_alloc();
    if (child == 0) {
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      if (prepare) prepare(rank);
      Member member;
      member.rank = rank;
      member.size = size;
      member.shared = shared_;
      RunChild(member, body);
    }
    children_.push_back(child);
    statuses_.push_back(0);
  }
}

Processes::~Processes() {
  for (uint32_t rank = 0; rank < children_.size(); ++rank) Kill(rank);
  munmap(shared_, sizeof(Shared));
}

bool Processes::Ended(uint32_t rank) {
  if (children_[rank] > 0 && waitpid(children_[rank], &statuses_[rank], WNOHANG) != 0) children_[rank] = 0;
  return children_[rank] == 0;
}

bool Processes::AwaitStage(uint32_t rank, uint32_t stage, double seconds) {
  const double limit = Seconds() + seconds;
  while (shared_->ranks[rank].stage < stage) {
    if (Seconds() > limit) return false;
    if (Ended(rank)) {
      std::fprintf(stderr, "rank %u ended with wait status %#x\n", rank, statuses_[rank]);
      return shared_->ranks[rank].stage >= stage;
    }
    Nap();
  }
  return true;
}

double Processes::Kill(uint32_t rank) {
  const double when = Seconds();
  if (children_[rank] > 0) {
    kill(children_[rank], SIGKILL);
    waitpid(children_[rank], &statuses_[rank], 0);
    children_[rank] = 0;
  }
  return when;
}

bool Processes::EndedWell(uint32_t rank, double seconds) {
  const double limit = Seconds() + seconds;
  while (!Ended(rank)) {
    if (Seconds() > limit) return false;
    Nap();
  }
  return WIFEXITED(statuses_[rank]) && WEXITSTATUS(statuses_[rank]) == 0;
}

}  // namespace conformance
