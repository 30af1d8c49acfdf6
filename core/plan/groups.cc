// The list of groups, sharing, and the table.
#include "core/plan/groups.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

constexpr int kSmallBufferMb = 16;  // scalars and statistics
constexpr int kStageBufferMb = 64;  // activations of one micro batch between stages

std::vector<RankList> MembersOf(const GroupSpec& spec, const Grids& grids) {
  std::vector<RankList> groups = grids.Of(spec.grid).Groups(spec.axes);
  if (!spec.ends_only) return groups;
  for (RankList& members : groups) {
    if (members.size() > 2) members = {members.front(), members.back()};
  }
  return groups;
}

bool Holds(const RankList& members, int rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

// "0-3,8" for 0 1 2 3 8.
std::string RankText(const RankList& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i < 2) last = i;  // a pair is written as two numbers
    text += Concat(i == 0 ? "" : ",", ranks[i], last > i ? Concat("-", ranks[last]) : "");
    i = last + 1;
  }
  return "[" + text + "]";
}

std::string MembersText(const std::vector<RankList>& groups) {
  constexpr size_t kMostGroups = 16;
  std::string text;
  for (size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) text += RankText(groups[i]);
  if (groups.size() > kMostGroups) text += Concat(" … and ", groups.size() - kMostGroups, " more");
  return text;
}

}  // namespace

std::vector<GroupSpec> TrainingGroups(const GroupNeeds& needs) {
  using enum GroupLane;
  using enum GridKind;
  const int large = needs.buffer_mb;
  const int small = std::min(kSmallBufferMb, large);
  const int stage = std::min(kStageBufferMb, large);
  const AxisNames dense = needs.replicas ? AxisNames{"cp", "shard"} : AxisNames{"cp", "dp"};
  const AxisNames experts = needs.replicas ? AxisNames{"eshard"} : AxisNames{"edp"};
  std::vector<GroupSpec> specs = {
      {"world", kDense, {"tp", "cp", "dp", "pp"}, kControl, small, "loss, gradient norm, stop flags"},
      {"tp", kDense, {"tp"}, kLayer, large, "tensor and sequence parallel layers"},
      {"cp", kDense, {"cp"}, kLayer, large, "attention over long sequences"},
      {"tp-cp", kDense, {"tp", "cp"}, kLayer, small, "router statistics of a micro batch"},
      {"stage",
       kDense,
       {"tp", "cp", "dp"},
       kLayer,
       small,
       "router statistics of all data-parallel ranks, matrices for muon"},
      {"etp", kExpert, {"etp"}, kLayer, large, "tensor parallel experts"},
      {"ep", kExpert, {"ep"}, kLayer, large, "tokens to experts and back"},
      {"etp-ep", kExpert, {"etp", "ep"}, kLayer, large, "tokens to experts by all-gather"},
      {"pp", kDense, {"pp"}, kPipeline, stage, "activations between stages"},
      {"embedding", kDense, {"pp"}, kPipeline, stage, "gradient of a tied embedding", true},
      {"dp-cp", kDense, dense, kGradient, large, "gradients and parameters of dense layers"},
      {"edp", kExpert, experts, kGradient, large, "gradients and parameters of experts"},
      {"replica", kDense, {"replica"}, kGradient, large, "gradients of dense layers between replicas"},
      {"ereplica", kExpert, {"ereplica"}, kGradient, large, "gradients of experts between replicas"},
  };
  std::erase_if(specs, [&](const GroupSpec& spec) {
    const bool of_experts = spec.grid == kExpert || spec.name == "tp-cp";
    if (spec.name == "stage" && !needs.stage_statistics) return true;
    if (spec.name.ends_with("replica") && !needs.replicas) return true;
    return (of_experts && !needs.experts) || (spec.ends_only && !needs.tied_embedding);
  });
  return specs;
}

bool PlannedGroup::needs_communicator() const {
  const auto larger_than_one = [](const RankList& ranks) { return ranks.size() > 1; };
  return shares.empty() && std::any_of(members.begin(), members.end(), larger_than_one);
}

GroupPlan::GroupPlan(const Grids& grids, const std::vector<GroupSpec>& specs) : world_(grids.world()) {
  for (const GroupSpec& spec : specs) {
    PlannedGroup planned = {spec, MembersOf(spec, grids), ""};
    for (const PlannedGroup& earlier : groups_) {
      if (earlier.spec.name == spec.name) throw InputError("group ", spec.name, " is planned twice");
      // The earlier group's buffer must suffice for both, so a smaller one is never shared with a larger.
      if (earlier.needs_communicator() && planned.shares.empty() && earlier.spec.lane == spec.lane &&
          earlier.members == planned.members && earlier.spec.buffer_mb >= spec.buffer_mb) {
        planned.shares = earlier.spec.name;
      }
    }
    groups_.push_back(std::move(planned));
  }
}

const PlannedGroup& GroupPlan::Find(const std::string& name) const {
  for (const PlannedGroup& group : groups_) {
    if (group.spec.name == name) return group;
  }
  throw InputError("no group '", name, "' is planned; known: ", Join(groups_, ", ", [](const PlannedGroup& group) {
                     return group.spec.name;
                   }));
}

RankList GroupPlan::Members(const std::string& name, int rank) const {
  for (const RankList& members : Find(name).members) {
    if (Holds(members, rank)) return members;
  }
  return {};
}

std::vector<int> GroupPlan::DeviceMemoryMb() const {
  std::vector<int> sums(world_, 0);
  for (const PlannedGroup& group : groups_) {
    if (!group.needs_communicator()) continue;
    for (const RankList& members : group.members) {
      for (int rank : members) sums[rank] += members.size() > 1 ? 2 * group.spec.buffer_mb : 0;
    }
  }
  return sums;
}

std::string GroupPlan::ToText() const {
  std::ostringstream text;
  text << "  group      axes         groups  size  memory MB  members\n";
  for (const PlannedGroup& group : groups_) {
    const std::string memory = !group.shares.empty()        ? "= " + group.shares
                               : group.needs_communicator() ? Concat("2 x ", group.spec.buffer_mb)
                                                            : "-";
    text << "  " << std::left << std::setw(11) << group.spec.name << std::setw(11) << Join(group.spec.axes, " ")
         << std::right << std::setw(8) << group.members.size() << std::setw(6) << group.members.front().size()
         << std::setw(11) << memory << "  " << MembersText(group.members) << "\n";
  }
  const std::vector<int> sums = DeviceMemoryMb();
  const auto [least, most] = std::minmax_element(sums.begin(), sums.end());
  text << "  communicators take " << *least;
  if (*most > *least) text << " to " << *most;
  text << " MB of device memory per rank\n";
  return text.str();
}

}  // namespace trireme
