#include "train/run/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "checkpoint/convert.h"
#include "checkpoint/run_checkpoints.h"
#include "checkpoint/stale_parts.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/stop_signals.h"
#include "core/device/cann_info.h"
#include "core/io/atomic_file.h"
#include "core/tensor/matrix_rate.h"
#include "core/tensor/tensor_devices.h"
#include "core/tensor/torch_errors.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/trace.h"
#include "data/dataset.h"
#include "data/prefetch.h"
#include "parallel/graph/costs.h"
#include "stages/policy_check.h"
#include "stages/preference_check.h"
#include "train/evaluation/answer_evaluator.h"
#include "train/evaluation/best_evaluation.h"
#include "train/evaluation/evaluator.h"
#include "train/methods/policy/policy_steps.h"
#include "train/methods/preference/preference.h"
#include "train/report/report_client.h"
#include "train/report/run_report.h"
#include "train/run/initial_weights.h"
#include "train/run/output_lock.h"
#include "train/run/run_inputs.h"
#include "train/states/averaged_weights.h"
#include "train/states/run_header.h"
#include "train/states/run_record.h"
#include "train/states/run_saver.h"
#include "train/states/run_start.h"
#include "train/step/batch_ramp.h"
#include "train/step/batch_sampler.h"
#include "train/step/learning_rate.h"
#include "train/step/row_sharing.h"
#include "train/step/trainer.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What is known of the best evaluation of earlier starts. A final/ from its checkpoint needs that checkpoint.
checkpoint::Progress BestBefore(const Config& config, const RunStart& start) {
  const bool needs_it = config.run().final_from() == FINAL_FROM_BEST;
  const auto best = CheckpointPath(start.output, start.progress.best().step());
  if (!start.same_run || (needs_it && !std::filesystem::exists(best))) return {};
  return start.progress;
}

// One run: the state that its steps share.
class Run {
 public:
  Run(const RunInputs& inputs, OutputLock& lock, Job& job, const ScreenOptions& screen)
      : config_(inputs.config),
        graph_(inputs.graph),
        job_(job),
        data_(inputs.data),
        rows_(data_.train),
        order_({.rows = data_.train->size(),
                .batch = config_.run().global_batch(),
                .shuffle = config_.data().shuffle() && !config_.data().streaming(),
                .seed = static_cast<uint64_t>(config_.run().seed()),
                .ramp = BatchRampOf(config_.run())}),
        total_steps_(inputs.total_steps),
        steps_per_epoch_(std::max<int64_t>(inputs.steps_per_epoch, 1)),
        start_at_(inputs.start),
        answers_(config_.eval().generate() ? std::make_unique<AnswerEvaluator>(config_, *data_.valid) : nullptr),
        best_(config_.run(), BestBefore(config_, start_at_)),
        done_(start_at_.step),
        directory_(start_at_.output),
        trace_(config_.run().trace() > 0 ? std::make_unique<Trace>() : nullptr),
        session_(config_, {graph_, inputs.plan}, job, {.trace = trace_.get()}),
        trainer_(session_) {
    if (IsPreference(config_.stage())) preference_ = std::make_unique<PreferencePass>(trainer_, start_at_.checkpoint);
    if (IsPolicy(config_.stage())) policy_ = std::make_unique<PolicySteps>(trainer_, inputs);
    LoadInitialWeights(graph_, start_at_, trainer_, job, ReferenceOrNull());
    if (preference_) preference_->Precompute(*data_.train, order_.options(), total_steps_, data_.valid.get());
    if (job.rank() == 0) WarnUnused(config_, graph_);
    saver_.emplace(trainer_, job,
                   RunSaverOptions{.output = directory_,
                                   .model = config_.model().path(),
                                   .keep = config_.run().keep(),
                                   .trained_only = graph_.adapter.has_value(),
                                   .header = HeaderOf(config_, graph_, inputs.plan, job.world())});
    SaveOtherModels();
    lock.RunBegins();
    if (job.rank() == 0) {
      WriteRecord(directory_, config_);
      CutLog(directory_ / "log.jsonl", start_at_.step);
      CutLog(directory_ / "rollouts.jsonl", start_at_.step);
      ReportOptions options = ReportOptionsOf(config_, screen);
      options.output = directory_;
      options.go_on = start_at_.same_run;
      options.first_step = start_at_.step + 1;
      report_.emplace(options);
    }
    peak_rate_ = MeasureMatrixRate(DTypeOf(config_.model()), trainer_.tensors()) * job.world();
    trainer_.tensors().ResetTensorPeak();  // what that took is not the run's
  }

  void AllSteps() {
    const StopSignals signals(/*speaks=*/job_.rank() == 0);
    start_ = Clock::now();
    if (done_ < total_steps_ && !policy_) ReadRowsOf(done_ + 1);
    bool asked = false, stops = best_.StopsRun();
    while (done_ < total_steps_ && !stops) {
      saver_->ThrowIfFailed();
      const LoggedStep logged = OneStepOrSave(++done_);
      asked |= trainer_.stop_agreed();
      const bool improved = logged.evaluation && best_.Take(done_, logged.evaluation->loss);
      stops = (asked || best_.StopsRun()) && CanStop();
      const bool last = stops || done_ == total_steps_;
      const int64_t steps_here = done_ - start_at_.step;
      if (steps_here == config_.run().trace() || (last && steps_here < config_.run().trace())) WriteTrace();
      if (last || SavesAt(done_, improved)) saver_->Save(ProgressAt(done_, logged.evaluation));
    }
    saver_->Finish();
  }

  bool stopped() const { return done_ < total_steps_ && !best_.StopsRun(); }

  // After everything else.
  void Report() {
    if (!report_) return;
    report_->Finish(config_, {.step = done_,
                              .total_steps = total_steps_,
                              .seconds = SecondsSince(start_),
                              .trained = done_ > start_at_.step,
                              .early = done_ < total_steps_ && !stopped(),
                              .final_step = FinalStep() < done_ ? FinalStep() : 0});
  }

  // The last checkpoint, or the best one, as a Hugging Face directory, or a PEFT adapter; a value model beside it.
  void WriteFinal() {
    WriteHeatMap();
    if (job_.rank() == 0) WarnUnused(config_, graph_);
    std::filesystem::path chosen = CheckpointPath(directory_, FinalStep());
    if (FinalStep() == start_at_.step) chosen = *start_at_.checkpoint;  // nothing was left to train
    if (ValueModelOrNull() != nullptr) Export(HfDirectory(chosen / kValueFolder), "final_value", nullptr);
    const HfDirectory checkpoint(chosen);
    const AveragedWeights averages(checkpoint, graph_);
    Export(checkpoint, "final", config_.optimizer().ema() > 0 ? &averages : nullptr);
  }

 private:
  checkpoint::Progress ProgressAt(int64_t step, const std::optional<Evaluation>& evaluation = {}) {
    checkpoint::Progress progress =
        ProgressOf(config_, {.step = step,
                             .updates = trainer_.optimizer().step(),
                             .rows = data_.train->size(),
                             .validation_loss = evaluation ? std::optional(evaluation->loss) : std::nullopt,
                             .kl_coefficient = PpoOrNull() ? PpoOrNull()->kl_coefficient() : std::nullopt});
    best_.AddTo(progress);
    return progress;
  }

  // A sampler outside that fails takes nothing along: the steps before are saved.
  LoggedStep OneStepOrSave(int64_t step) {
    try {
      return OneStep(step);
    } catch (const SamplerError&) {
      done_ = step - 1;
      const bool saved = done_ == start_at_.step || SavesAt(done_, /*improved=*/false);
      if (!saved) saver_->Save(ProgressAt(done_));
      saver_->Finish();
      if (job_.rank() == 0 && done_ > start_at_.step) {
        TRIREME_LOG(WARNING) << "no completions for step " << step << "; " << CheckpointPath(directory_, done_).string()
                             << " has the steps before it: start the run again to resume";
      }
      throw;
    }
  }

  void Export(const HfDirectory& checkpoint, const char* to, const TensorChange* change) {
    ExportHuggingFace(checkpoint, directory_ / to, {.change = change, .replace = start_at_.same_run},
                      {.rank = job_.rank(), .size = job_.world(), .barrier = [this] { job_.Barrier(); }});
  }

  // Whose checkpoint becomes final/.
  int64_t FinalStep() const {
    const bool best = config_.run().final_from() == FINAL_FROM_BEST && best_.step() > 0;
    return best ? best_.step() : std::max(done_, start_at_.step);
  }

  LoggedStep OneStep(int64_t step) {
    const Clock::time_point start = Clock::now();
    const double waited_before = rows_.waited_seconds();
    const StepRows batch = policy_ ? StepRows() : TakeRowsOf(step);
    LoggedStep logged{.step = step,
                      .total_steps = total_steps_,
                      .learning_rate = LearningRate(config_.optimizer(), step, total_steps_),
                      .epoch = order_.EpochAt(step)};
    for (Trainer* trainer : Trainers()) trainer->optimizer().BeginStep(logged.learning_rate);
    if (preference_) {
      preference_->Pass(rows_, batch.rows, step);
      logged.metrics = preference_->metrics();
    } else if (policy_) {
      logged.loss = policy_->Pass(step);
      logged.epoch = policy_->EpochAt(step);
    } else {
      KeptFeatures* kept = trainer_.model().kept_features();
      if (kept != nullptr) kept->TakeUses();  // those of an evaluation
      trainer_.StartPass(rows_, batch.rows, batch.places);
      if (SharesByCost())
        logged.metrics = {{"imbalance", batch.imbalance}, {"imbalance_in_order", batch.imbalance_in_order}};
      if (kept != nullptr) logged.metrics["kept_images"] = static_cast<double>(kept->TakeUses());
    }
    const GradientReport report = FinishGradients();
    if (!policy_) logged.loss = trainer_.loss();
    logged.mtp_loss = trainer_.mtp_losses();
    logged.grad_norm = report.norm;
    const GradientReport of_values = FinishValueGradients();
    logged.skipped = WhyNoUpdate(step, logged.loss, of_values.finite ? report : of_values);
    UpdateModels(logged.learning_rate, logged.skipped.empty());
    if (Reference* reference = ReferenceOrNull()) reference->Sync(step);
    logged.experts = Balance(logged.skipped.empty());
    if (policy_) logged.metrics = policy_->metrics();
    if (ValueModelOrNull() != nullptr) logged.metrics["value/grad_norm"] = of_values.norm;
    logged.step_seconds = SecondsSince(start);
    logged.data_seconds = rows_.waited_seconds() - waited_before;
    policy_ ? AddSpeed(policy_->rows(), policy_->all_rows(), logged) : AddSpeed(rows_, batch.rows, logged);
    if (EvaluatesAt(step)) logged.evaluation = Evaluate(step);
    logged.elapsed_seconds = SecondsSince(start_);
    logged.steps_here = step - start_at_.step;
    if (report_) report_->Step(logged, IsDue(config_.run().log_every(), step));
    return logged;
  }

  // Of the model, and of the value model where there is one.
  std::vector<Trainer*> Trainers() {
    std::vector<Trainer*> trainers = {&trainer_};
    if (ValueModel* values = ValueModelOrNull()) trainers.push_back(&values->trainer());
    return trainers;
  }

  // All of them, or none.
  void UpdateModels(double learning_rate, bool finite) {
    const Span span(trace_.get(), "compute", "update");
    for (Trainer* trainer : Trainers()) {
      if (finite) {
        trainer->optimizer().Update(learning_rate);
      } else {
        trainer->optimizer().SkipUpdate();
      }
    }
  }

  // Of the value model of stage ppo. Its routers' numbers are no part of the log.
  GradientReport FinishValueGradients() {
    ValueModel* values = ValueModelOrNull();
    if (values == nullptr) return {};
    GradientReport report = values->trainer().FinishGradients();
    values->trainer().TakeBalance();
    if (!report.finite) report.source = "the value model: " + report.source;
    return report;
  }

  // Checkpoints contain what the directories that the run was started with do not have.
  void SaveOtherModels() {
    Reference* reference = ReferenceOrNull();
    if (reference != nullptr && reference->saved() != nullptr)
      saver_->Add(kReferenceFolder, *reference->saved(), nullptr);
    if (ValueModel* values = ValueModelOrNull())
      saver_->Add(kValueFolder, values->session(), &values->trainer().optimizer());
  }

  PpoPass* PpoOrNull() { return policy_ ? policy_->ppo() : nullptr; }
  ValueModel* ValueModelOrNull() { return PpoOrNull() != nullptr ? PpoOrNull()->value_model() : nullptr; }

  Reference* ReferenceOrNull() {
    if (preference_) return preference_->reference();
    return policy_ ? policy_->reference() : nullptr;
  }

  // Updates that share completions are not parted: log-probabilities before the first of them would be lost.
  bool CanStop() const { return !policy_ || policy_->EndsSampling(done_); }

  // Starts to prefetch the rows of a coming step.
  void ReadRowsOf(int64_t step) {
    next_rows_ = {.rows = order_.RowsOf(step)};
    if (SharesByCost()) {
      const RowShares shares{.data_size = session_.plan().grids.dense.Size("dp"),
                             .micro_batch = config_.run().micro_batch()};
      next_rows_ = ShareByCost(next_rows_.rows, *data_.train, graph_, shares);
    }
    rows_.Start(trainer_.OwnRows(next_rows_.rows));
  }

  bool SharesByCost() const { return config_.data().balance() == ROWS_BY_COST; }

  StepRows TakeRowsOf(int64_t step) {
    StepRows rows = std::move(next_rows_);
    if (step < total_steps_) {
      ReadRowsOf(step + 1);
    } else {
      rows_.Start({});
    }
    return rows;
  }

  // What happens every N steps (0: never) and after the last one.
  bool IsDue(int64_t every, int64_t step) const { return every > 0 && (step % every == 0 || step == total_steps_); }

  bool EndsEpoch(int64_t step) {
    return step == total_steps_ || (policy_ ? step % steps_per_epoch_ == 0 : order_.EndsEpoch(step));
  }

  bool EvaluatesAt(int64_t step) {
    return IsDue(config_.run().eval_every(), step) || (config_.run().eval_every_epoch() && EndsEpoch(step));
  }

  bool SavesAt(int64_t step, bool improved) {
    const RunConfig& run = config_.run();
    return IsDue(run.save_every(), step) || (run.save_every_epoch() && EndsEpoch(step)) ||
           (run.final_from() == FINAL_FROM_BEST && improved);
  }

  Evaluation Evaluate(int64_t step) {
    const Span span(trace_.get(), "compute", "evaluate");
    const Clock::time_point start = Clock::now();
    Evaluation evaluation = preference_ ? preference_->Evaluate(*data_.valid) : EvaluateTokens();
    if (answers_) AddAnswers(step, evaluation.metrics);
    evaluation.seconds = SecondsSince(start);
    return evaluation;
  }

  Evaluation EvaluateTokens() {
    const EvaluationSums sums = trireme::Evaluate(session_, *data_.valid);
    return {.loss = sums.mean_loss(),
            .token_accuracy = sums.accuracy(),
            .metrics = {{"perplexity", std::exp(sums.mean_loss())}}};
  }

  // What the model writes, compared and kept.
  void AddAnswers(int64_t step, MetricValues& metrics) {
    metrics.merge(answers_->Run(session_));
    if (job_.rank() == 0) WritePredictions(directory_, Concat("predictions-", step), answers_->predictions());
  }

  void AddSpeed(const RowSource& rows, const std::vector<int64_t>& batch, LoggedStep& logged) const {
    double flops = 0;
    int64_t all_tokens = 0;
    for (const int64_t row : batch) {
      const int64_t length = rows.Length(row);
      logged.tokens += rows.Trained(row);
      all_tokens += length;
      flops += ModelFlops(graph_, rows.Extent(row));
    }
    logged.tokens_per_second = static_cast<double>(all_tokens) / logged.step_seconds;
    logged.mfu = flops / logged.step_seconds / peak_rate_;
    logged.memory_gib = static_cast<double>(trainer_.tensors().peak_bytes()) / (1 << 30);
  }

  GradientReport FinishGradients() {
    const Span span(trace_.get(), "compute", "finish gradients");
    return trainer_.FinishGradients();
  }

  // What routers did in this step, for the log; biases are updated if the step was. Collective.
  Json Balance(bool updated) {
    const ExpertBalance step = trainer_.TakeBalance();
    if (step.empty()) return {};
    const double speed = config_.experts().bias_speed();
    if (updated && speed > 0) trainer_.MoveBiases(step, speed);
    balance_.Join(step);
    Json json = step.ToJson();
    if (trainer_.repeats() > 0) json["repeated_steps"] = trainer_.repeats();  // of the run so far
    return json;
  }

  void WriteHeatMap() {
    if (job_.rank() != 0 || balance_.empty()) return;
    WriteAtomicFile(directory_ / "experts.svg", balance_.HeatMap());
  }

  // Empty if the numbers are finite. The same on all ranks.
  std::string WhyNoUpdate(int64_t step, double loss, const GradientReport& report) const {
    if (report.finite && std::isfinite(loss)) return {};
    const std::string why = report.finite ? Concat("the loss is ", loss) : "gradient of " + report.source;
    if (config_.optimizer().update() == UPDATE_IN_BACKWARD) {
      throw RuntimeError("step ", step, ": not finite: ", why,
                         "; with optimizer.update in_backward the weights in memory were updated by it, and nothing is "
                         "saved: go on from the last checkpoint with a lower optimizer.lr or without this option");
    }
    if (config_.run().on_nonfinite() == ON_NONFINITE_SKIP) return why;
    throw RuntimeError("step ", step, ": not finite: ", why,
                       "; nothing was updated. Check the data of this step, lower optimizer.lr, or set "
                       "run.on_nonfinite to skip");
  }

  void WriteTrace();

  const Config& config_;
  const LayerGraph& graph_;
  Job& job_;
  const DataSets data_;
  Prefetcher rows_;  // of data_.train
  BatchSampler order_;
  StepRows next_rows_;  // of the coming step
  const int64_t total_steps_, steps_per_epoch_;
  const RunStart start_at_;
  const std::unique_ptr<AnswerEvaluator> answers_;  // with eval.generate
  BestEvaluation best_;
  int64_t done_;  // steps
  const std::filesystem::path directory_;
  std::unique_ptr<Trace> trace_;
  Session session_;
  Trainer trainer_;
  std::unique_ptr<PreferencePass> preference_;  // in stages that compare answers
  std::unique_ptr<PolicySteps> policy_;         // in stages that train on completions
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

std::string DeviceText(const Config& config) {
  const std::string name = ChooseTensorDevice(config.device()).name;
  return name + (name == "npu" && CannProvider() == "twin" ? " (the twin's)" : "");
}

// On rank 0, under the output's lock. The others write nothing there before the first save's barrier.
void RemoveWhatAKilledRunLeft(const std::filesystem::path& output) {
  for (const std::filesystem::path& part : RemoveStaleParts(output)) {
    TRIREME_LOG(INFO) << "removed " << part.string() << ", left unfinished by a killed run";
  }
}

}  // namespace

void RunTraining(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job,
                 const RunOptions& options) {
  RefuseUnsupported(config);
  RefuseNoOutput(config);
  if (job.rank() == 0) CheckReportPackages(config.run());
  const ScreenOptions screen = ScreenOf(job.under_mpi(), options.report);
  WithTorchErrors(
      [&] {
        OutputLock lock(config.run().output(), job);
        const RunInputs inputs = OpenInputs(config, graph, plan, job);
        if (IsComplete(config, inputs.start, inputs.total_steps)) {
          return SayComplete(inputs, job, NoticesOf(screen));
        }
        CheckInitialWeights(config, graph, inputs.start,
                            ProgressOf(config, {.rows = inputs.data.train->size()}).data());
        SayWhatBegins(inputs, DeviceText(config), job, NoticesOf(screen));
        if (lock.excludes_all()) RemoveWhatAKilledRunLeft(inputs.start.output);
        Run run(inputs, lock, job, screen);
        run.AllSteps();
        if (!run.stopped()) run.WriteFinal();
        run.Report();
      },
      options.planned_memory);
}

}  // namespace trireme
