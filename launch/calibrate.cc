// `trireme calibrate`: measures the device under this program at a model's sizes, and writes a file of figures that
// `--on FILE` takes. Two real steps tell what the formulas leave.
#include <algorithm>
#include <iostream>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/cli/command.h"
#include "core/io/atomic_file.h"
#include "core/tensor/counted_memory.h"
#include "core/tensor/torch_errors.h"
#include "core/tensor/torch_runtime.h"
#include "cost/calibration.h"
#include "cost/step_model.h"
#include "launch/bench_comm_case.h"
#include "launch/calibrate_device.h"
#include "launch/layout.h"
#include "launch/step_rows.h"
#include "train/step/trainer.h"

namespace trireme {
namespace {

std::string UsualDevice(const Session& session) {
  if (session.tensors().is_cpu()) return "cpu";
  return session.tensors().torch().is_cuda() ? "h100" : "910b1";
}

DeviceRates LikeDevice(const Arguments& arguments, const Session& session) {
  const std::string usual = UsualDevice(session);
  DeviceRates like = FindDevice(arguments.value("like", usual));
  const std::string kind = FindDevice(usual).kind;
  if (like.kind != kind)
    throw InputError("--like ", like.name, " is a device of kind ", like.kind, ", and this run computes on ", kind);
  return like;
}

// Of the slowest rank, the median of several calls.
double ExchangeSeconds(CommBenchCase& bench, Job& job) {
  constexpr int kCalls = 9;
  std::vector<double> seconds;
  for (int call = 0; call <= kCalls; ++call) {
    job.Barrier();
    const Clock::time_point start = Clock::now();
    bench.RunOurs();
    const double slowest = job.Max(SecondsSince(start));
    if (call > 0) seconds.push_back(slowest);  // the first opens connections
  }
  return MedianOf(seconds);
}

// Every group of the layout that all ranks are in, at three sizes.
std::vector<MeasuredExchange> MeasureExchanges(const Session& session, Job& job) {
  std::vector<MeasuredExchange> measured;
  for (const PlannedGroup& group : session.plan().groups.groups()) {
    size_t members = 0;
    for (const RankList& list : group.members) members += list.size();
    if (!group.needs_communicator() || members != static_cast<size_t>(job.world())) continue;
    const RankList& first = group.members.front();
    const GroupShape shape{static_cast<int>(first.size()), first.size() > 1 ? first[1] - first[0] : 1};
    for (const char* op : {"all_gather", "reduce_scatter", "all_to_all", "send_recv"}) {
      for (const size_t bytes : {size_t{64} << 10, size_t{4} << 20, size_t{32} << 20}) {
        CommBenchCase bench({.op = op, .bytes = bytes}, session.groups().Get(group.spec.name));
        measured.push_back({op, shape, static_cast<double>(bench.bytes()), ExchangeSeconds(bench, job)});
      }
    }
  }
  return measured;
}

struct StepSeconds {
  double passes = 0, update = 0;
};

// Gradients are summed over the ranks before the update begins on any of them: who waits for others has no slow update.
StepSeconds TimeStep(Trainer& trainer, const std::vector<Row>& rows, double learning_rate, Job& job) {
  StepSeconds slowest;
  job.Barrier();
  const Clock::time_point start = Clock::now();
  trainer.optimizer().BeginStep(learning_rate);
  trainer.StartPass(rows);
  trainer.FinishGradients();
  trainer.tensors().Synchronize();
  slowest.passes = job.Max(SecondsSince(start));
  const Clock::time_point summed = Clock::now();
  trainer.optimizer().Update(learning_rate);
  trainer.tensors().Synchronize();
  slowest.update = job.Max(SecondsSince(summed));
  return slowest;
}

// The same of a step of rows of this length, by the figures, without the gaps between layers.
RealSteps::Step Predict(Config config, const LayerGraph& graph, const DeviceRates& device, int64_t length, int world,
                        double* update) {
  config.mutable_data()->set_max_length(static_cast<int32_t>(length));
  const Layout layout = LayoutOf(config, world);
  DeviceRates plain = device;
  plain.residual = 1;
  plain.layer_us = 0;
  plain.step_ms = 0;
  const Assumptions assumptions;
  const StepEstimate step = StepModel(config, graph, plain, assumptions).Estimate(layout);
  plain.layer_us = 1e6;
  const StepEstimate wide = StepModel(config, graph, plain, assumptions).Estimate(layout);
  *update = step.parts.optimizer;
  return {.predicted = step.step_seconds - step.parts.optimizer, .gaps = wide.step_seconds - step.step_seconds};
}

// As many of each length as fit into some seconds, at least one.
int64_t StepsWithin(const RealSteps::Step& longer, const RealSteps::Step& shorter, double seconds) {
  constexpr double kMost = 9;
  return static_cast<int64_t>(std::clamp(seconds / (longer.predicted + shorter.predicted) - 1, 1.0, kMost));
}

// steps: of each length; -1: as many as fit.
RealSteps MeasureSteps(Session& session, const DeviceRates& device, int64_t steps, Job& job) {
  constexpr double kSeconds = 20;
  const Config& config = session.config();
  const int64_t length = config.data().max_length(), batch = config.run().global_batch();
  const int64_t shorter = std::max<int64_t>(length / 4, 1);
  Trainer trainer(session);
  const auto rows = [&](int64_t tokens) {
    return RandomRows(batch, {tokens}, VocabularyOf(session.graph()), static_cast<uint64_t>(config.run().seed()));
  };
  const std::vector<Row> all = rows(length), few = rows(shorter);
  RealSteps real;
  double unused = 0;
  real.longer = Predict(config, session.graph(), device, length, job.world(), &real.predicted_update);
  real.shorter = Predict(config, session.graph(), device, shorter, job.world(), &unused);
  if (steps < 0)
    steps = static_cast<int64_t>(job.Max(static_cast<double>(StepsWithin(real.longer, real.shorter, kSeconds))));
  std::vector<double> longer_passes, shorter_passes, updates;
  trainer.tensors().ResetTensorPeak();
  for (int64_t step = 0; step <= steps; ++step) {  // in turns: the machine may be busy; the first warms up
    const StepSeconds longer = TimeStep(trainer, all, 1e-5, job), brief = TimeStep(trainer, few, 1e-5, job);
    if (step == 0) continue;
    longer_passes.push_back(longer.passes);
    shorter_passes.push_back(brief.passes);
    updates.push_back(longer.update);
  }
  real.longer.measured = MedianOf(longer_passes);
  real.shorter.measured = MedianOf(shorter_passes);
  real.update = MedianOf(updates);
  real.memory_bytes = job.Max(static_cast<double>(trainer.tensors().tensor_peak_bytes()));
  const Assumptions assumptions;
  const RankMemory planned =
      StepModel(config, session.graph(), device, assumptions).Memory(LayoutOf(config, job.world()));
  real.planned_memory_bytes = static_cast<double>(planned.device() - planned.communicators);
  return real;
}

void SayResiduals(const RealSteps& real, const DeviceRates& device) {
  std::cout << "real steps: passes " << real.longer.measured << " s and " << real.shorter.measured
            << " s, by the figures " << real.longer.predicted << " and " << real.shorter.predicted
            << "; residual factor of passes " << device.residual << ", of memory " << device.memory_residual << ", "
            << device.layer_us << " us per layer and pass, " << device.step_ms << " ms per step\n";
}

void RunCalibrate(const Arguments& arguments, Job& job) {
  const std::string to = arguments.value("to");
  if (job.rank() == 0) RefuseToOverwrite("--to", to);
  const int64_t steps = arguments.has("steps") ? arguments.integer("steps", 1, 0) : -1;
  const Config config = ModelConfigOf(arguments, job);
  CountedMemory::Begin();
  const std::unique_ptr<Session> session = Session::Open(config, job);
  DeviceRates like = LikeDevice(arguments, *session);
  like.name = arguments.value("name", like.name);
  if (job.hosts() > 1) like.inside.ranks = job.local_size();
  if (session->tensors().is_cpu()) {
    like.host_cores = std::max(1.0, static_cast<double>(std::thread::hardware_concurrency()) / TorchThreads());
  }
  Measurements measured = MeasureDevice(session->config(), session->graph(), session->tensors(), job);
  measured.exchanges = MeasureExchanges(*session, job);
  Calibration made = Calibrate(like, measured);
  if (job.rank() == 0) std::cout << ToText(measured, made.device);
  if (steps != 0) {
    session->DrawWeights(static_cast<uint64_t>(config.run().seed()));
    const RealSteps real = MeasureSteps(*session, made.device, steps, job);
    AddResiduals(real, made);
    if (job.rank() == 0) SayResiduals(real, made.device);
  }
  if (job.rank() != 0) return;
  WriteAtomicFile(to, Concat("# Written by trireme calibrate: ", job.world(), " ranks on ", job.hosts(),
                             " hosts, figures without a source as ", arguments.value("like", like.kind), "\n",
                             ToText(made.device, made.sources)));
  std::cout << "wrote " << to << "; give it to plan, train --dry-run and simulate as --on " << to << "\n";
}

constexpr const char* kCalibrateSummary =
    "Measures this device and writes a file of figures for --on: products at the model's shard sizes, copies, "
    "attention, norms, AdamW, and collectives of each group at three sizes.\n"
    "Runs alone or under mpirun, with the layout, lengths and micro batches of the run or of --set. Then steps of "
    "full rows and of quarter rows give the residual factors, which are printed and stored beside the figures.";

}  // namespace

Command CalibrateCommand() {
  return {
      .name = "calibrate",
      .summary = kCalibrateSummary,
      .options =
          {{.name = "model",
            .value_name = "DIR",
            .help = "a Hugging Face model directory; only its config.json is read",
            .required = true},
           {.name = "to", .value_name = "FILE", .help = "the file to write", .required = true},
           {.name = "like",
            .value_name = "DEVICE",
            .help = "figures that cannot be measured are this device's: its data sheet's peak, tiles, links "
                    "that this job does not use; by default cpu, h100 or 910b1"},
           {.name = "name", .value_name = "NAME", .help = "the device's name in tables; by default like's"},
           {.name = "steps",
            .value_name = "N",
            .help = "real steps of each length, of which the median counts; 0: none; by default as many as take 20 s"}},
      .positionals = {{.name = kRunFile,
                       .help = "the run whose layout is used; by default all keys have their defaults",
                       .required = false}},
      .takes_config = true,
      .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { RunCalibrate(arguments, job); }); }};
}

}  // namespace trireme
