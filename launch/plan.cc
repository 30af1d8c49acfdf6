// `trireme plan`: the grids, groups and their memory, for this job's ranks or for a hypothetical world size.
// Opens no device and creates no communicator.
#include <iostream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "launch/layout.h"
#include "session/run_plan.h"

namespace trireme {
namespace {

// Every axis and pair of axes of interest, with all its groups, and the communicators.
Json PlanFacts(const Grids& grids, const GroupPlan& plan) {
  Json axes = Json::object();
  for (const AxisNames& names : {AxisNames{"tp"}, {"cp"}, {"dp"}, {"pp"}, {"dp", "cp"}, {"tp", "cp"}}) {
    axes[Join(names, "-")] = grids.dense.Groups(names);
  }
  for (const AxisNames& names : {AxisNames{"etp"}, {"ep"}, {"edp"}})
    axes[Join(names, "-")] = grids.expert.Groups(names);
  Json groups = Json::array();
  for (const PlannedGroup& group : plan.groups()) {
    groups.push_back({{"name", group.spec.name},
                      {"buffer_mb", group.spec.buffer_mb},
                      {"communicator", group.needs_communicator()},
                      {"shares", group.shares},
                      {"members", group.members}});
  }
  return {{"world", grids.world()}, {"axes", axes}, {"groups", groups}, {"memory_mb", plan.DeviceMemoryMb()}};
}

void ShowPlan(const Arguments& arguments, Job& job) {
  constexpr int64_t kMostRanks = 1 << 20;
  const Config config = ConfigOf(arguments);
  const int64_t world = arguments.integer("world", job.world(), 1);
  if (world > kMostRanks) {
    throw InputError("--world ", world, " is too large for a plan; wanted at most ", kMostRanks);
  }
  const Grids grids = MakeGrids(static_cast<int>(world), SizesOf(config.parallel()));
  const GroupPlan plan = GroupsOf(config, grids);
  if (job.rank() != 0) return;
  if (arguments.has("json")) {
    std::cout << JsonLine(PlanFacts(grids, plan)) << "\n";
    return;
  }
  std::cout << ToText(grids) << "groups, in order of creation:\n" << plan.ToText();
}

}  // namespace

Command PlanCommand() {
  return {.name = "plan",
          .summary = "Shows the rank grids, the groups of ranks and their memory; needs no device.",
          .options = {{.name = "world",
                       .value_name = "N",
                       .help = "plan for N ranks; by default, for the ranks of this job"},
                      {.name = "json", .help = "print one JSON object"}},
          .positionals = {{.name = kRunFile,
                           .help = "the run's configuration; by default all keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = ShowPlan};
}

}  // namespace trireme
