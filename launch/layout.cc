#include "launch/layout.h"

#include "core/config/load.h"

namespace trireme {

Config ConfigOf(const Arguments& arguments) {
  if (arguments.has(kRunFile)) return LoadConfig(arguments.value(kRunFile), arguments.overrides());
  return ParseConfig("", "defaults", arguments.overrides());
}

ParallelSizes SizesOf(const ParallelConfig& parallel) {
  return {.tensor = parallel.tensor(),
          .pipeline = parallel.pipeline(),
          .context = parallel.context(),
          .expert = parallel.expert(),
          .expert_tensor = parallel.expert_tensor()};
}

GroupPlan GroupsOf(const Config& config, const Grids& grids) {
  const bool experts = config.parallel().expert() * config.parallel().expert_tensor() > 1;
  return GroupPlan(grids, TrainingGroups({.experts = experts, .buffer_mb = config.comm().buffer_mb()}));
}

CommOptions CommOptionsOf(const Config& config) {
  return {.connect_timeout_s = config.comm().connect_timeout_seconds(),
          .exec_timeout_s = config.comm().exec_timeout_seconds(),
          .hang_report_s = static_cast<double>(config.comm().hang_report_seconds()),
          .deterministic = config.run().deterministic()};
}

}  // namespace trireme
