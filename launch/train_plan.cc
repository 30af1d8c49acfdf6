// The checks, in the order in which a user can answer them: layout, files, model, schedule, stages, memory.
#include "launch/train_plan.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "checkpoint/hf_directory.h"
#include "core/base/error.h"
#include "core/config/schema.h"
#include "launch/layout.h"
#include "models/families.h"
#include "parallel/schedule/schedules.h"
#include "train/learning_rate.h"

namespace trireme {
namespace {

constexpr int kMostDrawn = 16;  // micro batches: more do not fit a screen, and show nothing new

void CheckThere(const std::string& key, const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw InputError(key, ": ", path, " is not there; write the path of a file that is");
  }
}

// What the configuration names must be there; data.train may still be open.
void CheckFiles(const Config& config) {
  for (const std::string& path : config.data().train()) CheckThere("data.train", path);
  for (const std::string& path : config.data().valid()) CheckThere("data.valid", path);
  const std::string& resume = config.run().resume();
  if (resume != "auto" && resume != "never") CheckThere("run.resume", resume);
}

LayerGraph ReadModel(const ModelConfig& model) {
  if (model.path().empty()) {
    throw InputError("model.path is empty; write the directory of a Hugging Face model");
  }
  LayerGraph graph = BuildGraph(HfConfig::Read(model.path()));
  if (model.init() == MODEL_INIT_WEIGHTS) const HfDirectory weights(model.path());
  return graph;
}

void CheckExperts(const Config& config, const LayerGraph& graph) {
  const ParallelConfig& parallel = config.parallel();
  if (parallel.expert() * parallel.expert_tensor() == 1) return;
  throw InputError("parallel.expert = ", parallel.expert(), ", expert_tensor = ", parallel.expert_tensor(),
                   ": ", graph.family, " has no experts to share; write 1 for both");
}

// Beyond these a typing error is likelier than a plan.
void CheckTokens(const Config& config) {
  constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
  const int64_t tokens = int64_t{config.run().micro_batch()} * config.data().max_length();
  if (tokens <= kMostTokens) return;
  throw InputError("run.micro_batch = ", config.run().micro_batch(),
                   " x data.max_length = ", config.data().max_length(), " = ", tokens,
                   " tokens at once; wanted at most ", kMostTokens);
}

int MicroBatches(const RunConfig& run, const Grids& grids) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t at_once = int64_t{run.micro_batch()} * grids.dense.Size("dp");
  const int64_t count = (run.global_batch() + at_once - 1) / at_once;
  if (count <= kMost) return static_cast<int>(count);
  throw InputError("run.global_batch = ", run.global_batch(), " makes ", count,
                   " micro batches a step; wanted at most ", kMost, "; lower it or raise run.micro_batch");
}

Schedule ScheduleOf(const ParallelConfig& parallel, int micro_batches) {
  const auto* value = PipelineSchedule_descriptor()->FindValueByNumber(parallel.schedule());
  return MakeSchedule(SpellingOf(*value), {parallel.pipeline(), micro_batches, parallel.virtual_stages()},
                      parallel.zero());
}

}  // namespace

TrainPlan MakeTrainPlan(const Config& config, int world) {
  const ParallelConfig& parallel = config.parallel();
  Grids grids = MakeGrids(world, SizesOf(parallel));
  CheckLearningRate(config.optimizer());
  CheckTokens(config);
  CheckFiles(config);
  LayerGraph graph = ReadModel(config.model());
  CheckExperts(config, graph);
  const int micro_batches = MicroBatches(config.run(), grids);
  const Schedule schedule = ScheduleOf(parallel, micro_batches);
  const int drawn = std::min(micro_batches, kMostDrawn);
  const std::vector<int> said(parallel.stage_layers().begin(), parallel.stage_layers().end());
  std::vector<StageLayers> stages =
      PartitionLayers(graph, schedule.placement.stages(), said, config.data().max_length());
  GroupPlan groups = GroupsOf(config, grids);
  TrainPlan plan{.config = config,
                 .graph = std::move(graph),
                 .grids = std::move(grids),
                 .groups = std::move(groups),
                 .placement = schedule.placement,
                 .stages = std::move(stages),
                 .micro_batches = micro_batches,
                 .timeline = Simulate(schedule, {}),
                 .drawn_micro_batches = drawn,
                 .drawn = Simulate(drawn < micro_batches ? ScheduleOf(parallel, drawn) : schedule, {}),
                 .memory = {}};
  plan.memory = PlanMemory({.config = plan.config,
                            .graph = plan.graph,
                            .grids = plan.grids,
                            .groups = plan.groups,
                            .placement = plan.placement,
                            .stages = plan.stages,
                            .timeline = plan.timeline});
  return plan;
}

}  // namespace trireme
