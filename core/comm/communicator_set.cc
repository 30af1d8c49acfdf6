#include "core/comm/communicator_set.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/comm/hccl_call.h"
#include "core/device/cann_declarations.h"
#include "net/interfaces.h"

namespace trireme {
namespace {

// HCCL reads its timeouts when the first communicator is created. A value set in the user's environment
// wins.
void ExportTimeouts(const CommOptions& options) {
  constexpr int kKeepExisting = 0;
  setenv("HCCL_CONNECT_TIMEOUT", std::to_string(options.connect_timeout_s).c_str(), kKeepExisting);
  setenv("HCCL_EXEC_TIMEOUT", std::to_string(options.exec_timeout_s).c_str(), kKeepExisting);
}

HcclCommConfig ConfigOf(const PlannedGroup& planned, int first_member, bool deterministic) {
  HcclCommConfig config = {};
  HcclCommConfigInit(&config);
  config.hcclBufferSize = static_cast<uint32_t>(planned.spec.buffer_mb);
  config.hcclDeterministic = deterministic ? 1 : 0;
  // HCCL's own messages then name the group.
  std::snprintf(config.hcclCommName, sizeof config.hcclCommName, "%s-%d", planned.spec.name.c_str(), first_member);
  return config;
}

// The interface that HCCL uses. HCCL accepts more kinds of addresses than the watch does; that alone must not
// prevent the start.
std::string WatchAddress(bool one_host) {
  try {
    return net::ChooseOwnAddress(one_host);
  } catch (const net::NoInterface& why) {
    TRIREME_LOG(WARNING) << "the hang watch uses another interface: " << why.what();
    return net::ChooseAddress({.one_host = one_host}, net::ListInterfaces());
  }
}

}  // namespace

CommunicatorSet::CommunicatorSet(Job& job, const Device& device, const GroupPlan& plan, const CommOptions& options)
    : job_(job), device_(device), options_(options) {
  device.MakeCurrent();
  ExportTimeouts(options);
  if (job.waits() != nullptr) job.waits()->set_limit(options.hang_report_s);
  if (job.hosts() == 1) setenv("TWIN_HCCL_ONE_HOST", "1", 0);  // the twin then listens on the loopback alone
  for (const PlannedGroup& planned : plan.groups()) {
    const RankList members = plan.Members(planned.spec.name, job.rank());
    if (members.empty()) continue;
    if (planned.shares.empty()) {
      Make(planned, members);
    } else {
      by_name_[planned.spec.name] = &Get(planned.shares);
    }
  }
  if (options.hang_report_s > 0 && job.world() > 1) StartWatch();
}

CommunicatorSet::~CommunicatorSet() {
  if (std::uncaught_exceptions() == 0) {
    // A member that leaves early looks like a dead peer to one that is still working.
    for (const auto& communicator : communicators_) communicator->Drain();
    job_.Barrier();
  }
  if (job_.waits() != nullptr) job_.waits()->Detach(&ledger_);
}

Communicator& CommunicatorSet::Get(const std::string& name) const {
  const auto found = by_name_.find(name);
  TRIREME_CHECK(found != by_name_.end()) << "rank " << job_.rank() << " is in no group " << name;
  return *found->second;
}

double CommunicatorSet::waited_seconds() const {
  double sum = 0;
  for (const auto& communicator : communicators_) sum += communicator->waited_seconds();
  return sum;
}

void CommunicatorSet::Make(const PlannedGroup& planned, const RankList& members) {
  const auto place = std::find(members.begin(), members.end(), job_.rank());
  const int group_rank = static_cast<int>(place - members.begin());
  const int number = ledger_.AddGroup(planned.spec.name, members);
  OwnedHcclComm comm;
  if (members.size() > 1) comm = Join(planned, members, group_rank);
  communicators_.push_back(std::make_unique<Communicator>(Communicator::Identity{.name = planned.spec.name,
                                                                                 .members = members,
                                                                                 .rank = group_rank,
                                                                                 .ledger_group = number,
                                                                                 .host_memory = options_.host_memory,
                                                                                 .compute = options_.compute,
                                                                                 .trace = options_.trace},
                                                          std::move(comm), slot_, ledger_));
  by_name_[planned.spec.name] = communicators_.back().get();
}

OwnedHcclComm CommunicatorSet::Join(const PlannedGroup& planned, const RankList& members, int group_rank) {
  HcclRootInfo root_info = {};
  if (group_rank == 0) HcclCall(HcclGetRootInfo(&root_info), "HcclGetRootInfo", "group ", planned.spec.name);
  job_.HandOut(members, &root_info, sizeof root_info);
  HcclCommConfig config = ConfigOf(planned, members.front(), options_.deterministic);
  HcclComm comm = nullptr;
  HcclCall(HcclCommInitRootInfoConfig(static_cast<uint32_t>(members.size()), &root_info,
                                      static_cast<uint32_t>(group_rank), &config, &comm),
           "HcclCommInitRootInfoConfig", "group ", planned.spec.name, ", rank ", group_rank, " of ", members.size(),
           ", buffer ", planned.spec.buffer_mb, " MB");
  return OwnedHcclComm(comm);
}

void CommunicatorSet::StartWatch() {
  WatchOptions options;
  options.limit_s = options_.hang_report_s;
  options.look_every_s = std::min(1.0, options_.hang_report_s / 2);
  if (job_.rank() == 0) options.listen_address = WatchAddress(job_.hosts() == 1);
  options.poll = [this] {
    device_.MakeCurrent();
    for (const auto& communicator : communicators_) communicator->Poll();
  };
  watch_ = std::make_unique<WatchChannel>(job_.rank(), job_.world(), ledger_, options);
  const std::string mine = job_.rank() == 0 ? watch_->Listen() : "";
  const std::string address = job_.GatherStrings(mine).front();
  if (job_.rank() != 0) watch_->Connect(address);
  if (job_.waits() != nullptr) job_.waits()->Attach(&ledger_, job_.world());
}

}  // namespace trireme
