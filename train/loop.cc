#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/config/print.h"
#include "core/config/schema.h"
#include "core/tensor/matrix_rate.h"
#include "core/tensor/torch_errors.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/trace.h"
#include "parallel/graph/costs.h"
#include "train/learning_rate.h"
#include "train/row_order.h"
#include "train/run_log.h"
#include "train/trainer.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<Row> ReadTrainingRows(const Config& config, int64_t vocabulary) {
  if (config.data().train().empty()) throw InputError("data.train is empty; name at least one file");
  std::vector<Row> all;
  for (const std::string& path : config.data().train()) {
    for (Row& row : ReadRows(path, vocabulary)) {
      if (static_cast<int>(row.input_ids.size()) > config.data().max_length()) {
        throw InputError(path, ": a row has ", row.input_ids.size(),
                         " tokens; data.max_length = ", config.data().max_length(), " allows no more");
      }
      all.push_back(std::move(row));
    }
  }
  return all;
}

// Nothing that is there is written over: not an earlier run, nor a file of the user's own.
std::filesystem::path PrepareOutput(const Config& config, const Job& job) {
  const std::filesystem::path directory = config.run().output();
  if (directory.empty()) throw InputError("run.output is empty; name a directory for what the run writes");
  for (const char* file : {"log.jsonl", "run.yaml", "trace.json"}) {
    if (!std::filesystem::exists(directory / file)) continue;
    throw InputError("run.output ", directory.string(), " has a ", file,
                     " already; choose another directory");
  }
  if (job.rank() == 0) std::filesystem::create_directories(directory);
  return directory;
}

void WriteConfig(const Config& config, const std::filesystem::path& directory) {
  if (!(std::ofstream(directory / "run.yaml") << ToYaml(config) << std::flush)) {
    throw RuntimeError((directory / "run.yaml").string(), " cannot be written; does the directory allow it?");
  }
}

// One run: what its steps share.
class Run {
 public:
  Run(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job)
      : config_(config),
        graph_(graph),
        job_(job),
        rows_(ReadTrainingRows(config, VocabularyOf(graph))),
        order_({.rows = static_cast<int64_t>(rows_.size()),
                .batch = config.run().global_batch(),
                .shuffle = config.data().shuffle(),
                .seed = static_cast<uint64_t>(config.run().seed())}),
        total_steps_(config.run().steps() > 0 ? config.run().steps()
                                              : config.run().epochs() * order_.steps_per_epoch()),
        directory_(PrepareOutput(config, job)),
        trace_(config.run().trace() > 0 ? std::make_unique<Trace>() : nullptr),
        trainer_(config, graph, plan, job, DTypeOf(config.model()), trace_.get()) {
    if (config.model().init() == MODEL_INIT_RANDOM) {
      trainer_.DrawWeights(static_cast<uint64_t>(config.run().seed()));
    } else {
      trainer_.LoadWeights(config.model().path());
    }
    if (job.rank() == 0) {
      WriteConfig(config, directory_);
      log_.emplace(directory_);
    }
    peak_rate_ = MeasureMatrixRate(DTypeOf(config.model()), trainer_.tensors()) * job.world();
  }

  void AllSteps() {
    start_ = Clock::now();
    for (int64_t step = 1; step <= total_steps_; ++step) {
      OneStep(step);
      if (step == std::min(config_.run().trace(), total_steps_)) WriteTrace();
    }
  }

 private:
  void OneStep(int64_t step) {
    const Clock::time_point start = Clock::now();
    std::vector<Row> batch;
    for (const int64_t row : order_.RowsOf(step)) batch.push_back(rows_[row]);
    LoggedStep logged{.step = step,
                      .total_steps = total_steps_,
                      .loss = trainer_.Pass(batch),
                      .learning_rate = LearningRate(config_.optimizer(), step, total_steps_),
                      .epoch = order_.EpochAt(step)};
    const GradientReport report = FinishGradients();
    logged.grad_norm = report.norm;
    logged.skipped = WhyNoUpdate(step, logged.loss, report);
    if (logged.skipped.empty()) {
      const Span span(trace_.get(), "compute", "update");
      trainer_.optimizer().Update(logged.learning_rate);
    } else {
      trainer_.optimizer().SkipUpdate();
    }
    logged.tokens = TrainedTokens(batch);
    double flops = 0;
    int64_t all_tokens = 0;
    for (const Row& row : batch) {
      all_tokens += static_cast<int64_t>(row.input_ids.size());
      flops += ModelFlops(graph_, 1, static_cast<int64_t>(row.input_ids.size()));
    }
    logged.step_seconds = SecondsSince(start);
    logged.tokens_per_second = static_cast<double>(all_tokens) / logged.step_seconds;
    logged.mfu = flops / logged.step_seconds / peak_rate_;
    logged.memory_gib = static_cast<double>(trainer_.tensors().peak_bytes()) / (1 << 30);
    logged.elapsed_seconds = SecondsSince(start_);
    if (log_ && (step % config_.run().log_every() == 0 || step == total_steps_)) log_->Write(logged);
  }

  GradientReport FinishGradients() {
    const Span span(trace_.get(), "compute", "finish gradients");
    return trainer_.FinishGradients();
  }

  // Empty where the numbers are sound. All ranks see the same.
  std::string WhyNoUpdate(int64_t step, double loss, const GradientReport& report) const {
    if (report.finite && std::isfinite(loss)) return {};
    const std::string why = report.finite ? Concat("the loss is ", loss) : "gradient of " + report.culprit;
    if (config_.run().on_nonfinite() == ON_NONFINITE_SKIP) return why;
    throw RuntimeError("step ", step, ": not finite: ", why,
                       "; nothing was updated. Look at the data of this step, lower optimizer.lr, or set "
                       "run.on_nonfinite to skip");
  }

  void WriteTrace();

  const Config& config_;
  const LayerGraph& graph_;
  Job& job_;
  const std::vector<Row> rows_;
  RowOrder order_;
  const int64_t total_steps_;
  const std::filesystem::path directory_;
  std::unique_ptr<Trace> trace_;
  Trainer trainer_;
  std::optional<RunLog> log_;  // on rank 0
  double peak_rate_ = 0;       // of all ranks together
  Clock::time_point start_;
};

// Collective.
void Run::WriteTrace() {
  const std::vector<std::string> texts = job_.GatherStrings(EncodeSpans(trace_->Take()));
  if (job_.rank() == 0) WriteChromeTrace((directory_ / "trace.json").string(), DecodeRanks(texts));
  trace_->Stop();
}

}  // namespace

void RunTraining(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job) {
  RefuseUnsupported(config);
  if (config.tuning().kind() != TUNING_FULL) {
    throw InputError("tuning.kind '",
                     SpellingOf(*TuningKind_descriptor()->FindValueByNumber(config.tuning().kind())),
                     "' cannot be trained yet; write tuning: {kind: full}");
  }
  WithTorchErrors([&] { Run(config, graph, plan, job).AllSteps(); });
  if (job.rank() == 0) {
    TRIREME_LOG(WARNING) << "the trained weights are not saved: checkpoints are not there yet";
  }
}

}  // namespace trireme
