// The checks, in the order in which a user can fix them: layout, files, model, schedule, stages, memory.
#include "train/plan/train_plan.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "checkpoint/hf_directory.h"
#include "core/base/error.h"
#include "core/base/problems.h"
#include "core/config/unused_keys.h"
#include "data/dataset.h"
#include "session/model_graph.h"
#include "session/tuning.h"
#include "stages/other_models.h"
#include "stages/reference_sync_check.h"
#include "stages/stage.h"
#include "train/evaluation/best_evaluation.h"
#include "train/plan/check_answers.h"
#include "train/plan/check_inputs.h"
#include "train/plan/check_options.h"
#include "train/plan/other_graphs.h"
#include "train/report/report_client.h"
#include "train/step/batch_ramp.h"
#include "train/step/learning_rate.h"

namespace trireme {
namespace {

constexpr int kMostDrawn = 16;  // micro batches: more do not fit on a screen, and show nothing new

void CheckResume(const Config& config) {
  const std::string& resume = config.run().resume();
  std::error_code ignored;
  if (resume == "auto" || resume == "never" || std::filesystem::exists(resume, ignored)) return;
  throw InputError("run.resume: ", resume, " does not exist; give the path of a run's checkpoint-N, auto or never");
}

LayerGraph ReadModel(const Config& config) {
  LayerGraph graph = ReadGraph(config);
  if (config.model().init() == MODEL_INIT_WEIGHTS) const HfDirectory weights(config.model().path());
  return graph;
}

// Beyond these a typing error is likelier than a plan.
void CheckTokens(const Config& config) {
  constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
  const int64_t tokens = int64_t{config.run().micro_batch()} * LongestRow(config);
  if (tokens <= kMostTokens) return;
  throw InputError("run.micro_batch = ", config.run().micro_batch(),
                   " x data.max_length = ", config.data().max_length(), " = ", tokens,
                   " tokens at once; wanted at most ", kMostTokens);
}

int MicroBatches(const RunConfig& run, const RunPlan& plan) {
  constexpr int kMost = 1 << 20;
  const int count = plan.MicroBatches(run.global_batch(), run.micro_batch());
  if (count <= kMost) return count;
  throw InputError("run.global_batch = ", run.global_batch(), " makes ", count,
                   " micro batches per step; wanted at most ", kMost, "; lower it or raise run.micro_batch");
}

// Refuses a layout of its own that does not fit the ranks or that model.
void CheckLayout(const Config& config, const LayerGraph& graph, const OtherModel& model, int world) {
  try {
    PlanRun(ConfigOf(config, model), model.directory.empty() ? graph : GraphOf(config, model), world);
  } catch (const Error& error) {
    throw InputError(model.layout_key, ": ", error.what());
  }
}

}  // namespace

void CheckUpdate(const Config& config, int world) {
  const OptimizerConfig& optimizer = config.optimizer();
  if (optimizer.masters() == MASTERS_SPLIT && config.memory().offload_optimizer()) {
    throw InputError("optimizer.masters split keeps a master's halves together on the device; with ",
                     "memory.offload_optimizer write masters: fp32");
  }
  if (optimizer.update() != UPDATE_IN_BACKWARD) return;
  const RunConfig& run = config.run();
  const std::string needs = "optimizer.update in_backward frees a gradient before the next one is complete: ";
  if (world > 1) throw InputError(needs, "wanted one process, there are ", world);
  if (optimizer.clip() > 0)
    throw InputError(needs, "the norm to clip by is not known then; set optimizer.clip to 0, it is ", optimizer.clip());
  if (run.global_batch() != run.micro_batch())
    throw InputError(needs, "wanted one micro batch; set run.micro_batch = ", run.micro_batch(),
                     " to run.global_batch = ", run.global_batch());
  if (config.memory().offload_optimizer())
    throw InputError(needs, "masters and moments stay on the device; turn memory.offload_optimizer off");
}

TrainPlan MakeTrainPlan(const Config& config, int world) {
  Problems problems;
  // A layout that does not fit is reported first.
  problems.Try([&] { MakeGrids(world, SizesOf(config.parallel())); });
  RefuseUnusedKeys(config, problems);
  problems.Try([&] { CheckLearningRate(config.optimizer()); });
  problems.Try([&] { CheckBatchRamp(config); });
  problems.Try([&] { CheckUpdate(config, world); });
  problems.Try([&] { CheckBestEvaluation(config); });
  problems.Try([&] { CheckRunAnswers(config); });
  problems.Try([&] { CheckReportNames(config.log()); });
  CheckTrainingOptions(config, problems);
  problems.Try([&] { CheckTokens(config); });
  problems.Try([&] { CheckResume(config); });
  problems.Try([&] { CheckStage(config); });
  problems.Try([&] { CheckReferenceSync(config); });
  CheckDataTools(config, problems);
  LayerGraph graph;
  Config resolved = config;
  problems.Try([&] {
    graph = ReadModel(config);
    *resolved.mutable_tuning() = ResolveTuning(config.tuning(), graph);
    CheckOtherModels(config, graph);
    CheckParameterOptions(config, graph);
  });
  problems.ThrowIfAny();
  RunPlan run = PlanRun(resolved, graph, world);
  for (const OtherModel& model : OtherModels(config)) {
    if (model.layout) CheckLayout(config, graph, model, world);
  }
  const int micro_batches = MicroBatches(config.run(), run);
  const int drawn = std::min(micro_batches, kMostDrawn);
  TrainPlan plan{.config = std::move(resolved),
                 .graph = std::move(graph),
                 .run = std::move(run),
                 .micro_batches = micro_batches,
                 .timeline = {},
                 .drawn_micro_batches = drawn,
                 .drawn = {},
                 .memory = {}};
  plan.timeline = Simulate(plan.run.ScheduleFor(micro_batches), {});
  plan.drawn = drawn < micro_batches ? Simulate(plan.run.ScheduleFor(drawn), {}) : plan.timeline;
  PlanMemoryFor(plan, LongestRow(config));  // the longest are pairs
  return plan;
}

void PlanMemoryFor(TrainPlan& plan, int64_t longest_row) {
  Config rows = plan.config;
  rows.mutable_data()->set_max_length(static_cast<int32_t>(longest_row));
  plan.memory = PlanMemory({.config = rows,
                            .graph = plan.graph,
                            .grids = plan.run.grids,
                            .groups = plan.run.groups,
                            .placement = plan.run.placement,
                            .stages = plan.run.stages,
                            .timeline = plan.timeline});
}

}  // namespace trireme
