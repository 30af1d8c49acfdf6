#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "checkpoint/adapter_config.h"
#include "checkpoint/convert.h"
#include "checkpoint/run_checkpoints.h"
#include "checkpoint/whole_file.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/nearest.h"
#include "core/base/process.h"
#include "core/base/stop_signals.h"
#include "core/config/print.h"
#include "core/tensor/matrix_rate.h"
#include "core/tensor/torch_errors.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/trace.h"
#include "parallel/graph/costs.h"
#include "train/data/dataset.h"
#include "train/data/read_ahead.h"
#include "train/learning_rate.h"
#include "train/load_weights.h"
#include "train/report/run_report.h"
#include "train/resume.h"
#include "train/row_order.h"
#include "train/run_saver.h"
#include "train/run_start.h"
#include "train/trainer.h"
#include "train/tuning.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void WriteConfig(const Config& config, const std::filesystem::path& directory) {
  const std::string text = ToYaml(config);
  WholeFile file(directory / "run.yaml");
  file.Write(text.data(), text.size());
  file.Commit();
}

// What all checkpoints of a run have in common.
checkpoint::Manifest HeaderOf(const Config& config, const LayerGraph& graph, const RunPlan& plan, int world) {
  checkpoint::Manifest header;
  header.set_writer("trireme");
  header.set_family(graph.family);
  header.set_model_config(ReadTextFile(config.model().path() + "/config.json"));
  if (graph.adapter) header.set_adapter_config(AdapterConfigText(*graph.adapter, config.model().path()));
  const ParallelConfig& parallel = config.parallel();
  checkpoint::Layout& layout = *header.mutable_layout();
  layout.set_world(static_cast<uint32_t>(world));
  layout.set_tensor(static_cast<uint32_t>(parallel.tensor()));
  layout.set_pipeline(static_cast<uint32_t>(parallel.pipeline()));
  layout.set_context(static_cast<uint32_t>(parallel.context()));
  layout.set_expert(static_cast<uint32_t>(parallel.expert()));
  layout.set_expert_tensor(static_cast<uint32_t>(parallel.expert_tensor()));
  layout.set_data(static_cast<uint32_t>(plan.grids.dense.Size("dp")));
  layout.set_zero(static_cast<uint32_t>(plan.zero));
  layout.set_schedule(plan.schedule);
  layout.set_virtual_stages(static_cast<uint32_t>(plan.virtual_stages));
  layout.set_dtype(std::string(Name(DTypeOf(config.model()))));
  return header;
}

// One run: what its steps share.
class Run {
 public:
  Run(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job)
      : config_(config),
        graph_(graph),
        job_(job),
        data_(OpenDataSets(
            config,
            {.vocabulary = VocabularyOf(graph), .works = job.local_rank() == 0, .reports = job.rank() == 0})),
        rows_(data_.train),
        order_({.rows = data_.train->size(),
                .batch = config.run().global_batch(),
                .shuffle = config.data().shuffle(),
                .seed = static_cast<uint64_t>(config.run().seed())}),
        total_steps_(config.run().steps() > 0 ? config.run().steps()
                                              : config.run().epochs() * order_.steps_per_epoch()),
        start_at_(PrepareRun(config, job)),
        done_(start_at_.step),
        directory_(start_at_.output),
        trace_(config.run().trace() > 0 ? std::make_unique<Trace>() : nullptr),
        trainer_(config, graph, plan, job, DTypeOf(config.model()), trace_.get()) {
    FirstValues();
    SayWhatIsLeftOut();
    saver_.emplace(trainer_, job,
                   RunSaverOptions{.output = directory_,
                                   .model = config.model().path(),
                                   .keep = config.run().keep(),
                                   .trained_only = graph.adapter.has_value(),
                                   .header = HeaderOf(config, graph, plan, job.world())});
    if (job.rank() == 0) {
      WriteConfig(config, directory_);
      CutLog(directory_ / "log.jsonl", start_at_.step);
      report_.emplace(ReportOptions{.output = directory_,
                                    .go_on = start_at_.same_run,
                                    .first_step = start_at_.step + 1,
                                    .screen = ScreenOf(job.under_mpi())});
    }
    peak_rate_ = MeasureMatrixRate(DTypeOf(config.model()), trainer_.tensors()) * job.world();
  }

  void AllSteps() {
    const StopSignals signals(/*speaks=*/job_.rank() == 0);
    start_ = Clock::now();
    if (done_ < total_steps_) ReadRowsOf(done_ + 1);
    bool stops = false;
    while (done_ < total_steps_ && !stops) {
      saver_->ThrowIfFailed();
      const LoggedStep logged = OneStep(++done_);
      stops = trainer_.stop_agreed();
      const bool last = stops || done_ == total_steps_;
      const int64_t steps_here = done_ - start_at_.step;
      if (steps_here == config_.run().trace() || (last && steps_here < config_.run().trace())) WriteTrace();
      if (last || IsDue(config_.run().save_every(), done_))
        saver_->Save(ProgressAt(done_, logged.evaluation));
    }
    saver_->Finish();
  }

  bool stopped() const { return done_ < total_steps_; }

  // Behind everything else.
  void Report() {
    if (!report_) return;
    report_->Finish(config_, {.step = done_, .total_steps = total_steps_, .seconds = SecondsSince(start_)});
  }

  // The last checkpoint as a Hugging Face directory, or an adapter's.
  void WriteFinal() {
    WriteHeatMap();
    SayWhatIsLeftOut();
    const int64_t last = std::max(total_steps_, start_at_.step);
    std::filesystem::path newest = CheckpointPath(directory_, last);
    if (last == start_at_.step) newest = *start_at_.checkpoint;  // nothing was left to do
    ExportHuggingFace(HfDirectory(newest), directory_ / "final", {.replace = start_at_.same_run},
                      {.rank = job_.rank(), .size = job_.world(), .barrier = [this] { job_.Barrier(); }});
  }

 private:
  void FirstValues() {
    if (start_at_.checkpoint) {
      StoreReader reader(*start_at_.checkpoint);
      CheckResumable(reader, graph_);
      CheckSameData(reader.manifest().progress().data(), ProgressAt(0).data(), *start_at_.checkpoint);
      if (graph_.adapter) {
        BaseValues(nullptr);
      } else {
        PrepareStates(reader, trainer_, job_);
      }
      LoadStates(reader, trainer_, job_);
      if (job_.rank() == 0) {
        TRIREME_LOG(INFO) << "goes on from " << start_at_.checkpoint->string() << ", step " << start_at_.step;
      }
    } else {
      BaseValues(OpenAdapter(config_.tuning(), graph_).get());
    }
  }

  void BaseValues(const TensorSource* adapter) {
    if (config_.model().init() == MODEL_INIT_RANDOM) {
      trainer_.DrawWeights(static_cast<uint64_t>(config_.run().seed()), adapter);
    } else {
      trainer_.LoadWeights(config_.model().path(), adapter);
    }
  }

  // What the model's files have for further tokens and the run does not use. An adapter leaves its base
  // whole.
  void SayWhatIsLeftOut() const {
    const bool reads = config_.model().init() == MODEL_INIT_WEIGHTS && !graph_.adapter;
    if (job_.rank() != 0 || !reads || graph_.unused.empty()) return;
    const int64_t count = CountUnused(HfDirectory(config_.model().path()), graph_);
    if (count == 0) return;
    TRIREME_LOG(WARNING) << config_.model().path() << ": its " << count << " tensors of "
                         << Join(graph_.unused) << " are not trained, and what this run writes is without "
                         << "them; multi_token_prediction.depths puts them to use";
  }

  checkpoint::Progress ProgressAt(int64_t step, const std::optional<Evaluation>& evaluation = {}) {
    checkpoint::Progress progress;
    progress.set_step(step);
    progress.set_updates(trainer_.optimizer().step());
    progress.set_seed(static_cast<uint64_t>(config_.run().seed()));
    if (evaluation) progress.set_validation_loss(evaluation->loss);
    checkpoint::DataPosition& data = *progress.mutable_data();
    data.set_rows(data_.train->size());
    data.set_global_batch(config_.run().global_batch());
    data.set_shuffle(config_.data().shuffle());
    data.set_seed(static_cast<uint64_t>(config_.run().seed()));
    return progress;
  }

  LoggedStep OneStep(int64_t step) {
    const Clock::time_point start = Clock::now();
    const double waited_before = rows_.waited_seconds();
    const std::vector<int64_t> batch = TakeRowsOf(step);
    LoggedStep logged{.step = step,
                      .total_steps = total_steps_,
                      .loss = trainer_.Pass(rows_, batch),
                      .learning_rate = LearningRate(config_.optimizer(), step, total_steps_),
                      .epoch = order_.EpochAt(step)};
    logged.mtp_loss = trainer_.depth_losses();
    const GradientReport report = FinishGradients();
    logged.grad_norm = report.norm;
    logged.skipped = WhyNoUpdate(step, logged.loss, report);
    if (logged.skipped.empty()) {
      const Span span(trace_.get(), "compute", "update");
      trainer_.optimizer().Update(logged.learning_rate);
    } else {
      trainer_.optimizer().SkipUpdate();
    }
    logged.experts = Balance(logged.skipped.empty());
    logged.step_seconds = SecondsSince(start);
    logged.data_seconds = rows_.waited_seconds() - waited_before;
    AddSpeed(batch, logged);
    if (IsDue(config_.run().eval_every(), step)) logged.evaluation = Evaluate();
    logged.elapsed_seconds = SecondsSince(start_);
    logged.steps_here = step - start_at_.step;
    if (report_) report_->Step(logged, IsDue(config_.run().log_every(), step));
    return logged;
  }

  // Of a step that comes; they are read meanwhile.
  void ReadRowsOf(int64_t step) {
    next_rows_ = order_.RowsOf(step);
    rows_.Start(trainer_.OwnRows(next_rows_));
  }

  std::vector<int64_t> TakeRowsOf(int64_t step) {
    std::vector<int64_t> rows = std::move(next_rows_);
    if (step < total_steps_) {
      ReadRowsOf(step + 1);
    } else {
      rows_.Start({});
    }
    return rows;
  }

  // What happens every so many steps (0: never) and behind the last one.
  bool IsDue(int64_t every, int64_t step) const {
    return every > 0 && (step % every == 0 || step == total_steps_);
  }

  Evaluation Evaluate() {
    const Span span(trace_.get(), "compute", "evaluate");
    const Clock::time_point start = Clock::now();
    const EvaluationSums sums = trainer_.Evaluate(*data_.valid);
    return {.loss = sums.mean_loss(), .accuracy = sums.accuracy(), .seconds = SecondsSince(start)};
  }

  void AddSpeed(const std::vector<int64_t>& batch, LoggedStep& logged) const {
    double flops = 0;
    int64_t all_tokens = 0;
    for (const int64_t row : batch) {
      const int64_t length = rows_.Length(row);
      logged.tokens += rows_.Trained(row);
      all_tokens += length;
      flops += ModelFlops(graph_, 1, length);
    }
    logged.tokens_per_second = static_cast<double>(all_tokens) / logged.step_seconds;
    logged.mfu = flops / logged.step_seconds / peak_rate_;
    logged.memory_gib = static_cast<double>(trainer_.tensors().peak_bytes()) / (1 << 30);
  }

  GradientReport FinishGradients() {
    const Span span(trace_.get(), "compute", "finish gradients");
    return trainer_.FinishGradients();
  }

  // What routers did in this step, for the log; biases follow where the step was made. Collective.
  Json Balance(bool updated) {
    const ExpertBalance step = trainer_.TakeBalance();
    if (step.empty()) return {};
    const double speed = config_.experts().bias_speed();
    if (updated && speed > 0) trainer_.MoveBiases(step, speed);
    balance_.Join(step);
    return step.ToJson();
  }

  void WriteHeatMap() {
    if (job_.rank() != 0 || balance_.empty()) return;
    const std::string drawing = balance_.HeatMap();
    WholeFile file(directory_ / "experts.svg");
    file.Write(drawing.data(), drawing.size());
    file.Commit();
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
  const DataSets data_;
  ReadAhead rows_;  // of data_.train
  RowOrder order_;
  std::vector<int64_t> next_rows_;  // of the step that comes
  const int64_t total_steps_;
  const RunStart start_at_;
  int64_t done_;  // steps
  const std::filesystem::path directory_;
  std::unique_ptr<Trace> trace_;
  Trainer trainer_;
  std::optional<RunSaver> saver_;
  std::optional<RunReport> report_;  // on rank 0
  ExpertBalance balance_;            // of all steps so far
  double peak_rate_ = 0;             // of all ranks together
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
  WithTorchErrors([&] {
    Run run(config, graph, plan, job);
    run.AllSteps();
    if (!run.stopped()) run.WriteFinal();
    run.Report();
  });
}

}  // namespace trireme
