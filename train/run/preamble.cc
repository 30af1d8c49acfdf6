#include "train/run/preamble.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/base/text.h"
#include "parallel/graph/parameters.h"
#include "parallel/schedule/simulate.h"
#include "train/plan/memory_plan.h"

namespace trireme {
namespace {

constexpr double kGibibyte = 1 << 30;

std::vector<RankMemory> PlannedMemory(const PreambleInputs& in) {
  const RunConfig& run = in.config.run();
  const int micro_batches = in.plan.MicroBatches(run.global_batch(), run.micro_batch());
  const Timeline timeline = Simulate(in.plan.ScheduleFor(micro_batches), {});
  Config rows = in.config;
  if (in.extent.longest > 0) rows.mutable_data()->set_max_length(static_cast<int32_t>(in.extent.longest));
  return PlanMemory({.config = rows,
                     .graph = in.graph,
                     .grids = in.plan.grids,
                     .groups = in.plan.groups,
                     .placement = in.plan.placement,
                     .stages = in.plan.stages,
                     .timeline = timeline});
}

void PrintMemory(const PreambleInputs& in, std::ostream& out) {
  const std::vector<RankMemory> ranks = PlannedMemory(in);
  const auto most = std::ranges::max_element(ranks, {}, &RankMemory::device);
  out << std::setprecision(2) << "memory planned: " << static_cast<double>(most->device()) / kGibibyte
      << " GiB per rank";
  if (ranks.size() > 1) out << " at most, on rank " << most - ranks.begin();
  if (most->host > 0) out << ", and " << static_cast<double>(most->host) / kGibibyte << " GiB of host memory";
  out << "; temporaries not included\n";
}

}  // namespace

std::string PreambleText(const PreambleInputs& in) {
  const int64_t all = CountParameters(in.graph, false), trained = CountParameters(in.graph, true);
  std::ostringstream out;
  out << std::fixed << std::setprecision(trained == all ? 0 : 2);
  out << "model: " << in.graph.family << ", " << Counted(all, "parameter") << ", " << trained << " trained ("
      << 100.0 * static_cast<double>(trained) / static_cast<double>(all) << " %)\n"
      << ToText(in.extent, in.config);
  if (in.done_steps > 0) out << "  " << in.done_steps << " of them already done\n";
  out << "device: " << in.device << ", " << Counted(in.job.world(), "rank") << " on " << Counted(in.job.hosts(), "host")
      << "\n";
  PrintMemory(in, out);
  return out.str();
}

}  // namespace trireme
