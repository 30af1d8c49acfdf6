// GroupPlan: which communicators a layout needs, in the order in which every rank creates them, with their
// members and device memory. Plain values: core/comm creates the communicators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/grids.h"

namespace trireme {

// Groups of one lane run one after another anyway. Only they may share a communicator if their members are
// the same, since a communicator has one stream: a gradient reduction must not block an expert dispatch.
enum class GroupLane { kControl, kLayer, kPipeline, kGradient };

struct GroupSpec {
  std::string name;
  GridKind grid = GridKind::kDense;
  AxisNames axes;
  GroupLane lane = GroupLane::kLayer;
  int buffer_mb = 200;  // HCCL uses twice this much device memory
  const char* purpose = "";
  bool ends_only = false;  // only the first and last member of each group, the outer pipeline stages
};

struct GroupNeeds {
  bool experts = true;            // the model has expert layers
  bool tied_embedding = true;     // the head uses the embedding's weight, which may lie on another stage
  bool stage_statistics = false;  // something is counted over all ranks of a pipeline stage, layer by layer
  bool replicas = false;          // data-parallel ranks hold what they shard more than once
  int buffer_mb = 200;            // of groups that move tensors; others use less
};

// What training needs, in the order of creation. A caller with a factored axis appends its own groups.
std::vector<GroupSpec> TrainingGroups(const GroupNeeds& needs);

struct PlannedGroup {
  GroupSpec spec;
  std::vector<RankList> members;  // one list for each group; a rank is in at most one
  std::string shares;             // name of the earlier group whose communicator this one shares; or empty

  // Whether a communicator is created: a group of one is an identity, and a shared one already exists.
  bool needs_communicator() const;
};

class GroupPlan {
 public:
  GroupPlan(const Grids& grids, const std::vector<GroupSpec>& specs);

  const std::vector<PlannedGroup>& groups() const { return groups_; }  // in the order of creation
  const PlannedGroup& Find(const std::string& name) const;
  // The members of the rank's group of that name, the rank included; empty for an inner stage of an ends-only
  // one.
  RankList Members(const std::string& name, int rank) const;
  // Device memory that its communicators take, for each rank.
  std::vector<int> DeviceMemoryMb() const;

  // A table: group, axes, count, size, memory, members.
  std::string ToText() const;

 private:
  std::vector<PlannedGroup> groups_;
  int world_ = 1;
};

}  // namespace trireme
