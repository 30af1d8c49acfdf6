// All groups of a plan, created at start in the plan's order, so that every rank creates them alike. Rank 0
// of a group creates HCCL's root info, MPI distributes it, every member joins. Calls are issued from one
// thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/issue_guard.h"
#include "core/comm/job.h"
#include "core/comm/ledger.h"
#include "core/comm/watch_channel.h"
#include "core/device/device.h"
#include "core/plan/groups.h"

namespace trireme {

struct CommOptions {
  int connect_timeout_s = 120;       // HCCL_CONNECT_TIMEOUT, unless the environment sets it
  int exec_timeout_s = 1836;         // HCCL_EXEC_TIMEOUT, unless the environment sets it; 0: never
  double hang_report_s = 60;         // a call that waits longer is reported on rank 0's stderr; 0: never
  bool deterministic = false;        // the same bits on every run, at some cost in speed
  bool host_memory = false;          // buffers are in host memory, as on device cpu; twin only
  ComputeStream* compute = nullptr;  // where tensors are computed, if not on the host; outlives the set
  Trace* trace = nullptr;            // receives a span for every call; null: none
};

class CommunicatorSet {
 public:
  // Collective over the job. `job` and `device` outlive the set.
  CommunicatorSet(Job& job, const Device& device, const GroupPlan& plan, const CommOptions& options);
  // Collective over the job, unless an error unwinds.
  ~CommunicatorSet();
  CommunicatorSet(const CommunicatorSet&) = delete;
  CommunicatorSet& operator=(const CommunicatorSet&) = delete;

  // This rank's group of that name in the plan. Two groups may share a communicator where the plan says so.
  Communicator& Get(const std::string& name) const;
  // False if the rank is in no group of that name (an inner stage of an ends-only one).
  bool Has(const std::string& name) const { return by_name_.contains(name); }
  // How long the host has waited for calls of all groups so far.
  double waited_seconds() const;

 private:
  void Make(const PlannedGroup& planned, const RankList& members);
  OwnedHcclComm Join(const PlannedGroup& planned, const RankList& members, int group_rank);
  void StartWatch();

  Job& job_;
  const Device& device_;
  const CommOptions options_;
  IssueSlot slot_;
  Ledger ledger_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // in the order of creation
  std::map<std::string, Communicator*> by_name_;
  std::unique_ptr<WatchChannel> watch_;  // last: it polls the communicators
};

}  // namespace trireme
