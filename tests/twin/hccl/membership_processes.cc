// Forking, reporting over a pipe, barriers in shared memory.
#include "tests/twin/hccl/membership_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

#include "acl/acl.h"

namespace membership_test {
namespace {

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

std::string RunChild(uint32_t rank, const RankBody& body) {
  if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(static_cast<int32_t>(rank)) != ACL_SUCCESS) {
    return "device " + std::to_string(rank) + " cannot be selected: " + RecentError();
  }
  return body(rank);
}

}  // namespace

Processes::Processes(uint32_t count, const RankBody& body) {
  for (uint32_t rank = 0; rank < count; ++rank) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot create a pipe");
    const pid_t id = fork();
    if (id == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string report = RunChild(rank, body);
      const bool told = write(ends[1], report.data(), report.size()) == static_cast<ssize_t>(report.size());
      std::exit(told ? 0 : 1);  // not _exit: how a process ends is tested too
    }
    close(ends[1]);
    children_.push_back({id, ends[0]});
  }
}

Processes::~Processes() {
  for (const Child& child : children_) {
    close(child.report);
    if (child.id == 0) continue;
    kill(child.id, SIGKILL);
    waitpid(child.id, nullptr, 0);
  }
}

std::string Processes::Wait(uint32_t rank) {
  Child& child = children_[rank];
  std::string report;
  std::array<char, 4096> chunk;
  for (ssize_t count = 0; (count = read(child.report, chunk.data(), chunk.size())) > 0;) {
    report.append(chunk.data(), static_cast<size_t>(count));
  }
  int status = 0;
  waitpid(child.id, &status, 0);
  child.id = 0;
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return report + " (exit status " + std::to_string(WEXITSTATUS(status)) + ")";
  return report;
}

void Processes::Kill(uint32_t rank) { kill(children_[rank].id, SIGKILL); }

struct Stage::Shared {
  std::array<HcclRootInfo, 64> infos;
  std::array<std::atomic<bool>, 64> made;
  std::atomic<uint32_t> arrivals;
};

Stage::Stage() {
  void* page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("cannot create shared memory");
  shared_ = new (page) Shared{};
}

Stage::~Stage() { munmap(shared_, sizeof(Shared)); }

HcclRootInfo Stage::RootInfo(uint32_t slot, uint32_t rank) {
  if (rank == 0) {
    if (HcclGetRootInfo(&shared_->infos[slot]) != HCCL_SUCCESS) {
      std::fprintf(stderr, "cannot create a root info: %s\n", RecentError().c_str());
      std::abort();
    }
    shared_->made[slot].store(true, std::memory_order_release);
  }
  while (!shared_->made[slot].load(std::memory_order_acquire)) Nap();
  return shared_->infos[slot];
}

void Stage::Meet(uint32_t count) {
  const uint32_t before = shared_->arrivals.fetch_add(1);
  const uint32_t wanted = (before / count + 1) * count;
  while (shared_->arrivals.load() < wanted) Nap();
}

std::string RecentError() {
  const char* text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

std::string Check(HcclResult code, HcclResult wanted, const std::string& what) {
  if (code == wanted) return "";
  return what + " gave " + std::to_string(code) + ", wanted " + std::to_string(wanted) + ": " + RecentError() + "\n";
}

std::string CheckWords(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (text.find(word) == std::string::npos) return "'" + word + "' is not in: " + text + "\n";
  }
  return "";
}

HcclResult AwaitAsyncError(HcclComm comm) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  HcclResult error = HCCL_SUCCESS;
  while (error == HCCL_SUCCESS && std::chrono::steady_clock::now() < end) {
    if (HcclGetCommAsyncError(comm, &error) != HCCL_SUCCESS) return HCCL_E_INTERNAL;
    Nap();
  }
  return error;
}

void SetConnectTimeout(const char* seconds) {
  setenv("TWIN_SHORT_TIMEOUTS", "1", 1);
  setenv("HCCL_CONNECT_TIMEOUT", seconds, 1);
}

}  // namespace membership_test
