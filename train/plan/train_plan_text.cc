// The plan as human-readable text.
#include <algorithm>
#include <iomanip>
#include <optional>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/graph/costs.h"
#include "parallel/graph/parameters.h"
#include "parallel/schedule/draw.h"
#include "stages/other_models.h"
#include "train/plan/sampling_plan.h"
#include "train/plan/train_plan.h"

namespace trireme {
namespace {

std::string MicroBatchesText(int count) {
  return std::to_string(count) + (count == 1 ? " micro batch" : " micro batches");
}

std::vector<double> StageCosts(const TrainPlan& plan) {
  std::vector<double> costs;
  for (const StageLayers& stage : plan.run.stages) {
    costs.push_back(0);
    for (size_t i = stage.begin; i < stage.end; ++i) {
      costs.back() += ForwardFlops(plan.graph.layers[i], plan.config.data().max_length());
    }
  }
  return costs;
}

void PrintStages(const TrainPlan& plan, std::ostream& out) {
  const std::vector<double> costs = StageCosts(plan);
  double all = 0;
  for (double cost : costs) all += cost;
  const int width = plan.run.grids.world() / plan.run.placement.ranks;  // pp is the slowest axis
  out << "stages:\n  stage  pipeline rank  chunk       ranks    work  layers\n";
  for (size_t stage = 0; stage < plan.run.stages.size(); ++stage) {
    const StageSite site = plan.run.placement.SiteOf(static_cast<int>(stage));
    std::ostringstream ranks;
    ranks << site.rank * width;
    if (width > 1) ranks << "-" << (site.rank + 1) * width - 1;
    out << "  " << std::setw(5) << stage << std::setw(15) << site.rank << std::setw(7) << site.chunk << std::setw(12)
        << ranks.str() << std::setw(6) << 100 * costs[stage] / all << " %  "
        << LayersText(plan.graph, plan.run.stages[stage]) << "\n";
  }
}

void PrintSchedule(const TrainPlan& plan, std::ostream& out) {
  out << "schedule, one column per shortest action";
  if (plan.drawn_micro_batches < plan.micro_batches) {
    out << ", drawn for " << plan.drawn_micro_batches << " of the " << plan.micro_batches << " micro batches of a step";
  }
  out << ":\n" << DrawText(plan.drawn);
  double idle = 0;
  for (const RankTimeline& rank : plan.timeline.ranks) idle += rank.bubble_fraction;
  out << "bubble of a step with " << MicroBatchesText(plan.micro_batches) << ": "
      << 100 * idle / static_cast<double>(plan.timeline.ranks.size())
      << " % of the time, if all stages took equally long\n";
}

void PrintLength(const TrainPlan& plan, std::ostream& out) {
  const RunConfig& run = plan.config.run();
  const int64_t length = plan.config.data().max_length(), tokens = run.global_batch() * length;
  const int64_t places = int64_t{plan.micro_batches} * run.micro_batch() * plan.run.grids.dense.Size("dp");
  out << "a step: " << run.global_batch() << " sequences of at most " << length << " tokens, " << tokens
      << " in total; " << std::scientific << ModelFlops(plan.graph, run.global_batch(), length) << std::fixed
      << " operations\n  " << MicroBatchesText(plan.micro_batches) << " of " << run.micro_batch() << " on each of "
      << Counted(plan.run.grids.dense.Size("dp"), "data-parallel rank");
  if (places > run.global_batch()) {
    out << ", " << places - run.global_batch() << " of " << places << " slots stay empty";
  }
  out << "\n";
  if (!plan.config.data().train().empty()) return;  // reported with the data
  out << "steps: ";
  if (run.steps() > 0) {
    out << run.steps() << ", at most " << std::scientific
        << static_cast<double>(run.steps()) * static_cast<double>(tokens) << std::fixed << " tokens\n";
  } else {
    out << "as many as run.epochs = " << Concat(run.epochs()) << " takes\n";
  }
}

}  // namespace

std::string ToText(const TrainPlan& plan) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  out << "model: " << plan.graph.family << ", " << CountParameters(plan.graph, false) << " parameters, "
      << DecodersIn(plan.graph) << " decoder layers";
  if (const int depths = plan.config.multi_token_prediction().depths(); depths > 0) {
    out << ", " << depths << " MTP layers";
  }
  out << "\n";
  if (plan.config.tuning().kind() != TUNING_FULL) {
    out << "trained: " << CountParameters(plan.graph, true) << " of them\n";
  }
  out << ToText(plan.run.grids) << "groups, in order of creation:\n" << plan.run.groups.ToText();
  PrintStages(plan, out);
  PrintSchedule(plan, out);
  out << "memory per rank, in MiB, without the temporaries of single operators";
  out << ":\n" << ToText(plan.memory);
  const std::optional<OtherModel> sampler = OtherModelOf(plan.config, ModelRole::kSampler);
  const Config sampling = sampler ? ConfigOf(plan.config, *sampler) : plan.config;
  const Grids grids = sampler ? MakeGrids(plan.run.grids.world(), SizesOf(sampling.parallel())) : plan.run.grids;
  out << SamplingText(plan.config, PlanSampling(sampling, plan.graph, grids), plan.memory);
  out << AnswersText(plan.config, plan.graph, plan.run.grids, plan.memory);
  PrintLength(plan, out);
  return out.str();
}

}  // namespace trireme
