// Ranks as forked processes that a test can kill: each reports through memory shared with the test, which
// itself never calls ACL. No MPI: its launcher would kill the survivors. Forks before creating any thread, as
// the sanitizers require.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/twin/hccl/conformance_api.h"

namespace conformance {

constexpr uint32_t kMaxProcesses = 8;

double Seconds();  // the same clock in all processes

struct Report {
  std::atomic<uint32_t> stage;  // how far the rank has got
  double at;                    // when it got the error it was waiting for
  int call, stream, async;      // HcclResult, aclError, HcclResult
  int after;                    // HcclResult of one more collective
  char text[1000];
};

struct Shared {
  std::atomic<uint32_t> root_ready;
  HcclRootInfo root;
  std::atomic<uint32_t> released;  // the stage up to which ranks may proceed
  Report ranks[kMaxProcesses];
};

// One rank, as its body sees it.
struct Member {
  uint32_t rank = 0;
  uint32_t size = 1;
  Shared* shared = nullptr;
  HcclComm comm = nullptr;
  aclrtStream stream = nullptr;

  Report& report() const { return shared->ranks[rank]; }
  HcclResult Join();                   // the communicator over all ranks
  void Reached(uint32_t stage) const;  // tells the test
  void AwaitRelease(uint32_t stage) const;
  [[noreturn]] void Linger() const;  // alive, but silent
  // Records a failed call or stream, and the result of the asynchronous query (given some time to notice).
  void Record(HcclResult call, aclError stream) const;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

class Processes {
 public:
  // `prepare` runs first in the new process, before any ACL call; a body that returns exits its process with
  // 0.
  Processes(uint32_t size, const Environment& environment, const std::function<void(Member&)>& body,
            const std::function<void(uint32_t rank)>& prepare = {});
  ~Processes();  // kills the remaining processes
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  const Report& report(uint32_t rank) const { return shared_->ranks[rank]; }
  bool AwaitStage(uint32_t rank, uint32_t stage, double seconds);  // false: it did not, or no longer can
  void Release(uint32_t stage) { shared_->released = stage; }
  double Kill(uint32_t rank);  // SIGKILL; returns the time
  // True if the process ended by itself with status 0 within `seconds`.
  bool EndedWell(uint32_t rank, double seconds);

 private:
  bool Ended(uint32_t rank);

  Shared* shared_ = nullptr;
  std::vector<pid_t> children_;  // 0 once ended
  std::vector<int> statuses_;    // of ended ones, as from waitpid
};

}  // namespace conformance
