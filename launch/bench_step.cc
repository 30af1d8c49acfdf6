// `trireme bench step`: times whole training steps of a model's shape under a layout, on random weights and
// tokens. One JSON line: the best step, and where its time went.
#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/process.h"
#include "core/cli/command.h"
#include "core/tensor/counted_memory.h"
#include "core/tensor/kernel_times.h"
#include "core/tensor/matrix_rate.h"
#include "core/tensor/torch_errors.h"
#include "launch/layout.h"
#include "launch/step_rows.h"
#include "models/families.h"
#include "parallel/graph/costs.h"
#include "parallel/schedule/simulate.h"
#include "train/plan/memory_plan.h"
#include "train/plan/train_plan.h"
#include "train/step/trainer.h"

namespace trireme {
namespace {

struct StepCosts {  // seconds
  double step = 0;
  double compute = 0;
  double exposed_comm = 0;  // waiting for communication other than the pipeline's
  double bubble = 0;        // waiting for the pipeline
  double optimizer = 0;     // norm, clipping, update
  // Bytes: of tensors before the pass, and the peak beyond that during forward and backward.
  int64_t states = 0, activations = 0;
};

StepCosts TimeStep(Trainer& trainer, const std::vector<Row>& rows, double learning_rate) {
  const auto seconds = [](Clock::time_point a, Clock::time_point b) { return ToSeconds(b - a); };
  const double pipeline = trainer.pipeline_wait_seconds(), other = trainer.other_wait_seconds();
  const int64_t states = trainer.tensors().tensor_bytes();
  trainer.tensors().ResetTensorPeak();
  const Clock::time_point start = Clock::now();
  trainer.optimizer().BeginStep(learning_rate);
  trainer.StartPass(rows);
  trainer.tensors().Synchronize();
  const Clock::time_point passed = Clock::now();
  const int64_t most = trainer.tensors().tensor_peak_bytes();
  const double other_in_pass = trainer.other_wait_seconds() - other;
  trainer.FinishGradients();
  trainer.optimizer().Update(learning_rate);
  trainer.tensors().Synchronize();
  const Clock::time_point end = Clock::now();
  StepCosts times{.step = seconds(start, end),
                  .exposed_comm = trainer.other_wait_seconds() - other,
                  .bubble = trainer.pipeline_wait_seconds() - pipeline,
                  .states = states,
                  .activations = most - states};
  times.compute = seconds(start, passed) - other_in_pass - times.bubble;
  times.optimizer = seconds(passed, end) - (times.exposed_comm - other_in_pass);
  return times;
}

// One more step under the profiler: a JSON line for each kernel, most time first.
void SayKernels(Trainer& trainer, const std::vector<Row>& rows, double learning_rate, Job& job) {
  double seconds = 0;
  const std::vector<KernelTime> kernels = TimeKernels([&] { seconds = TimeStep(trainer, rows, learning_rate).step; });
  for (const KernelTime& kernel : kernels) {
    if (job.rank() != 0) return;
    std::cout << JsonLine({{"kernel", kernel.name},
                           {"calls", kernel.calls},
                           {"kernel_seconds", kernel.seconds},
                           {"share", kernel.seconds / seconds}})
              << "\n";
  }
}

// Of the rank that has the most, in GiB.
double Largest(Job& job, int64_t bytes) { return job.Max(static_cast<double>(bytes) / (1 << 30)); }

// As `train --dry-run` would show it, of the rank that needs most.
double PlannedGib(const Config& config, const Session& session) {
  const RunPlan& plan = session.plan();
  const Timeline timeline =
      Simulate(plan.ScheduleFor(plan.MicroBatches(config.run().global_batch(), config.run().micro_batch())), {});
  int64_t most = 0;
  for (const RankMemory& rank : PlanMemory({.config = config,
                                            .graph = session.graph(),
                                            .grids = plan.grids,
                                            .groups = plan.groups,
                                            .placement = plan.placement,
                                            .stages = plan.stages,
                                            .timeline = timeline}))
    most = std::max(most, rank.device());
  return static_cast<double>(most) / (1 << 30);
}

void BenchStep(const Arguments& arguments, Job& job) {
  const Config config = ModelConfigOf(arguments, job);
  const DType dtype = DTypeOf(config.model());
  const int64_t length = config.data().max_length(), batch = config.run().global_batch();
  const int64_t steps = arguments.integer("steps", 5, 1), documents = arguments.integer("documents", 1, 1);
  if (documents > length)
    throw InputError(Concat("--documents ", documents, ": a row has ", length, " tokens (data.max_length)"));

  CheckUpdate(config, job.world());
  CountedMemory::Begin();
  const std::unique_ptr<Session> session = Session::Open(config, job);
  session->DrawWeights(static_cast<uint64_t>(config.run().seed()));
  const LayerGraph& graph = session->graph();
  Trainer trainer(*session);
  const std::vector<Row> rows =
      RandomRows(batch, {length, documents}, VocabularyOf(graph), static_cast<uint64_t>(config.run().seed()));
  StepCosts best;
  std::vector<double> seconds;
  int64_t allocations = 0;
  for (int64_t i = 0; i <= steps; ++i) {  // the first warms up
    job.Barrier();
    if (i == std::min<int64_t>(steps, 2)) allocations = trainer.tensors().fresh_allocations();
    StepCosts times = TimeStep(trainer, rows, config.optimizer().lr());
    times.step = job.Max(times.step);
    if (i == 1 || (i > 1 && times.step < best.step)) best = times;
    if (i > 0) seconds.push_back(times.step);
  }
  std::sort(seconds.begin(), seconds.end());
  allocations = trainer.tensors().fresh_allocations() - allocations;
  const double memory = Largest(job, trainer.tensors().peak_bytes());
  const double states_gib = Largest(job, best.states), activations_gib = Largest(job, best.activations);
  job.Barrier();
  const double rate = MeasureMatrixRate(dtype, trainer.tensors()) * job.world();
  const double flops = ModelFlops(graph, batch, length) / best.step;
  if (arguments.has("kernels")) SayKernels(trainer, rows, config.optimizer().lr(), job);
  if (job.rank() != 0) return;
  std::cout << JsonLine({{"tokens_per_second", static_cast<double>(batch * length) / best.step},
                         {"step_seconds", best.step},
                         {"median_step_seconds", seconds[seconds.size() / 2]},
                         {"tflops", flops / 1e12},
                         {"mfu", flops / rate},
                         {"peak_memory_gib", memory},
                         {"planned_memory_gib", PlannedGib(config, *session)},
                         {"states_gib", states_gib},
                         {"activations_gib", activations_gib},
                         {"compute_seconds", best.compute},
                         {"exposed_comm_seconds", best.exposed_comm},
                         {"bubble_seconds", best.bubble},
                         {"optimizer_seconds", best.optimizer},
                         {"fresh_allocations", allocations},
                         {"ranks", job.world()},
                         {"steps", steps}})
            << "\n";
}

constexpr const char* kBenchStepSummary =
    "Times training steps on random weights and tokens, one JSON line: the best of N steps. The batch is\n"
    "run.global_batch rows of data.max_length tokens in micro batches of run.micro_batch; of DIR only\n"
    "config.json is read. Step time is the slowest rank's, its parts are rank 0's; mfu compares with the\n"
    "matmul rate of all ranks, measured in the same run; peak_memory_gib is the largest "
    "rank's,\n"
    "planned_memory_gib what train --dry-run plans,\n"
    "states_gib its tensor memory between steps, activations_gib the peak beyond that during a "
    "forward and backward pass.";

}  // namespace

Command BenchStepCommand() {
  return {.name = "bench step",
          .summary = kBenchStepSummary,
          .options = {{.name = "model",
                       .value_name = "DIR",
                       .help = "a Hugging Face model directory; only its config.json is read",
                       .required = true},
                      {.name = "steps", .value_name = "N", .help = "timed steps; by default 5"},
                      {.name = "documents", .value_name = "N", .help = "documents packed into each row; by default 1"},
                      {.name = "kernels",
                       .value_name = "",
                       .help = "also the device's kernels of one more step on rank 0, a line each"}},
          .positionals = {{.name = kRunFile,
                           .help = "the run whose layout is used; by default all keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { BenchStep(arguments, job); }); }};
}

}  // namespace trireme
