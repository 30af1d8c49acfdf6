#include "train/run/loop.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "checkpoint/convert.h"
#include "checkpoint/run_checkpoints.h"
#include "checkpoint/stale_parts.h"
#include "core/base/clock.h"
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
#include "stages/evaluation_check.h"
#include "stages/stage.h"
#include "train/evaluation/answer_evaluator.h"
#include "train/evaluation/answer_metrics.h"
#include "train/evaluation/best_evaluation.h"
#include "train/evaluation/predictions.h"
#include "train/methods/method.h"
#include "train/report/report_client.h"
#include "train/report/run_report.h"
#include "train/run/initial_weights.h"
#include "train/run/output_lock.h"
#include "train/run/run_inputs.h"
#include "train/run/step_speed.h"
#include "train/run/update_check.h"
#include "train/states/averaged_weights.h"
#include "train/states/pooling_files.h"
#include "train/states/run_header.h"
#include "train/states/run_record.h"
#include "train/states/run_saver.h"
#include "train/states/run_start.h"
#include "train/step/learning_rate.h"
#include "train/step/no_step.h"
#include "train/step/trainer.h"

namespace trireme {
namespace {

// What is known of the best evaluation of earlier starts. A final/ from its checkpoint needs that checkpoint.
checkpoint::Progress BestBefore(const Config& config, const RunStart& start) {
  const bool needs_it = config.save().final_from() == FINAL_FROM_BEST;
  const auto best = CheckpointPath(start.output, start.progress.best().step());
  if (!start.same_run || (needs_it && !std::filesystem::exists(best))) return {};
  return start.progress;
}

// One run: the state that its steps share.
class Run {
 public:
  Run(const RunInputs& inputs, std::unique_ptr<Method> method, OutputLock& lock, Job& job, const ScreenOptions& screen,
      const MetricValues& predicted)
      : config_(inputs.config),
        predicted_(predicted),
        graph_(inputs.graph),
        job_(job),
        data_(inputs.data),
        total_steps_(inputs.total_steps),
        start_at_(inputs.start),
        answers_(config_.eval().generate() && !FactsOf(config_).on_completions()
                     ? std::make_unique<AnswerEvaluator>(config_, *data_.valid)
                     : nullptr),
        best_(config_.eval(), BestBefore(config_, start_at_)),
        done_(start_at_.step),
        directory_(start_at_.output),
        trace_(config_.log().trace() > 0 ? std::make_unique<Trace>() : nullptr),
        session_(config_, {graph_, inputs.plan}, job, {.trace = trace_.get()}),
        trainer_(session_),
        method_(std::move(method)) {
    method_->Begin({.trainer = trainer_, .start = start_at_, .total_steps = total_steps_});
    LoadInitialWeights(graph_, start_at_, trainer_, job, *method_);
    method_->Prepare();
    others_ = method_->others();
    if (job.rank() == 0) WarnUnused(config_, graph_);
    saver_.emplace(
        trainer_, job,
        RunSaverOptions{.output = directory_,
                        .model = config_.model().path(),
                        .keep = config_.save().keep(),
                        .weights_only = config_.save().weights_only(),
                        .trained_only = graph_.adapter.has_value(),
                        .header = HeaderOf(config_, graph_, inputs.plan, job.world()),
                        .files = PoolingFiles(config_, std::get<HeadSpec>(graph_.layers.back().spec).hidden)});
    for (const SavedModel& model : others_) {
      const bool states = model.trainer != nullptr && !config_.save().weights_only();
      saver_->Add(model.what.saved_as, *model.session, states ? &model.trainer->optimizer() : nullptr);
    }
    lock.RunBegins();
    if (job.rank() == 0) {
      WriteRecord(directory_, config_);
      CutLog(directory_ / "log.jsonl", EvaluatesAtStart() ? -1 : start_at_.step);
      CutLog(directory_ / "rollouts.jsonl", start_at_.step);
      ReportOptions options = ReportOptionsOf(config_, screen);
      options.output = directory_;
      options.go_on = start_at_.same_run;
      options.first_step = start_at_.step + (EvaluatesAtStart() ? 0 : 1);
      report_.emplace(options);
    }
    peak_rate_ = MeasureMatrixRate(DTypeOf(config_.model()), trainer_.tensors()) * job.world();
    trainer_.tensors().ResetTensorPeak();  // what that took is not the run's
  }

  void AllSteps() {
    const StopSignals signals(/*speaks=*/job_.rank() == 0);
    start_ = Clock::now();
    if (EvaluatesAtStart()) EvaluateAtStart();
    bool asked = false, stops = best_.StopsRun();
    while (done_ < total_steps_ && !stops) {
      saver_->ThrowIfFailed();
      const LoggedStep logged = OneStepOrSave(++done_);
      asked |= trainer_.stop_agreed();
      const std::optional<double> found = CriterionOf(logged.evaluation);
      const bool improved = found && best_.Take(done_, *found);
      stops = (asked || best_.StopsRun()) && method_->EndsWindow(done_);
      const bool last = stops || done_ == total_steps_;
      const int64_t steps_here = done_ - start_at_.step;
      if (steps_here == config_.log().trace() || (last && steps_here < config_.log().trace())) WriteTrace();
      if (last || SavesAt(done_, improved)) saver_->Save(ProgressAt(done_, logged.evaluation));
      if (WritesModelAt(done_)) WriteModel();
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

  // The last checkpoint, or the best one, as a Hugging Face directory, or a PEFT adapter; other trained models beside
  // it.
  void WriteFinal() {
    WriteHeatMap();
    if (job_.rank() == 0) WarnUnused(config_, graph_);
    std::filesystem::path chosen = CheckpointPath(directory_, FinalStep());
    if (FinalStep() == start_at_.step) chosen = *start_at_.checkpoint;  // nothing was left to train
    for (const SavedModel& model : others_) {
      if (model.trainer != nullptr)
        Export(HfDirectory(chosen / model.what.saved_as), "final_" + model.what.name, nullptr);
    }
    ExportModel(HfDirectory(chosen), "final");
  }

 private:
  checkpoint::Progress ProgressAt(int64_t step, const std::optional<Evaluation>& evaluation = {}) {
    checkpoint::Progress progress = ProgressOf(config_, {.step = step,
                                                         .updates = trainer_.optimizer().step(),
                                                         .rows = data_.train->size(),
                                                         .validation_loss = CriterionOf(evaluation)});
    method_->AddTo(progress);
    best_.AddTo(progress);
    return progress;
  }

  // The checkpoint of this step as a Hugging Face directory, when it is whole. Another start of the run may have
  // written it already, and was killed before the next checkpoint.
  void WriteModel() {
    saver_->Finish();
    const std::string name = Concat("hf-", done_);
    ExportModel(HfDirectory(CheckpointPath(directory_, done_)), name);
  }

  // A step that cannot begin takes nothing along: the steps before are saved.
  LoggedStep OneStepOrSave(int64_t step) {
    try {
      return OneStep(step);
    } catch (const NoStep& error) {
      done_ = step - 1;
      const bool saved = done_ == start_at_.step || SavesAt(done_, /*improved=*/false);
      if (!saved) saver_->Save(ProgressAt(done_));
      saver_->Finish();
      if (job_.rank() == 0 && done_ > start_at_.step) {
        TRIREME_LOG(WARNING) << "no " << error.missing() << " for step " << step << "; "
                             << CheckpointPath(directory_, done_).string()
                             << " has the steps before it: start the run again to resume";
      }
      throw;
    }
  }

  void Export(const HfDirectory& checkpoint, const std::string& to, const TensorChange* change) {
    ExportHuggingFace(checkpoint, directory_ / to, {.change = change, .replace = start_at_.same_run},
                      {.rank = job_.rank(), .size = job_.world(), .barrier = [this] { job_.Barrier(); }});
  }

  void ExportModel(const HfDirectory& checkpoint, const std::string& to) {
    const AveragedWeights averages(checkpoint, graph_);
    Export(checkpoint, to, config_.optimizer().ema() > 0 ? &averages : nullptr);
  }

  // Whose checkpoint becomes final/.
  int64_t FinalStep() const {
    const bool best = config_.save().final_from() == FINAL_FROM_BEST && best_.step() > 0;
    return best ? best_.step() : std::max(done_, start_at_.step);
  }

  LoggedStep OneStep(int64_t step) {
    const Clock::time_point start = Clock::now();
    LoggedStep logged{.step = step,
                      .total_steps = total_steps_,
                      .learning_rate = LearningRate(config_.optimizer(), step, total_steps_)};
    for (Trainer* trainer : Trainers()) trainer->optimizer().BeginStep(logged.learning_rate);
    method_->Pass(step);
    const GradientReport report = FinishGradients();
    StepResult result = method_->Result();
    logged.loss = result.loss;
    logged.epoch = result.epoch;
    logged.metrics = std::move(result.metrics);
    logged.metrics.insert(predicted_.begin(), predicted_.end());
    logged.data_seconds = result.waited_seconds;
    logged.mtp_loss = trainer_.mtp_losses();
    logged.grad_norm = report.norm;
    const GradientReport of_others = FinishOtherGradients(logged.metrics);
    logged.skipped = WhyNoUpdate(config_, step, logged.loss, of_others.finite ? report : of_others);
    UpdateModels(logged.learning_rate, logged.skipped.empty());
    method_->AfterUpdate(step);
    logged.experts = Balance(logged.skipped.empty());
    logged.step_seconds = SecondsSince(start);
    AddSpeed(graph_, *result.rows, result.chosen, peak_rate_, logged);
    logged.memory_gib = static_cast<double>(trainer_.tensors().peak_bytes()) / (1 << 30);
    if (EvaluatesAt(step)) logged.evaluation = Evaluate(step);
    logged.elapsed_seconds = SecondsSince(start_);
    logged.steps_here = step - start_at_.step;
    if (report_) report_->Step(logged, IsDue(config_.log().every(), step));
    return logged;
  }

  // Of the run's own model, and of those that are trained beside it.
  std::vector<Trainer*> Trainers() {
    std::vector<Trainer*> trainers = {&trainer_};
    for (const SavedModel& model : others_) {
      if (model.trainer != nullptr) trainers.push_back(model.trainer);
    }
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

  // Of the models beside the run's own; their norms go to the metrics. Their routers' numbers are no part of the log.
  GradientReport FinishOtherGradients(MetricValues& metrics) {
    GradientReport all;
    for (const SavedModel& model : others_) {
      if (model.trainer == nullptr) continue;
      GradientReport report = model.trainer->FinishGradients();
      model.trainer->TakeBalance();
      metrics[model.what.name + "/grad_norm"] = report.norm;
      if (report.finite) continue;
      report.source = Concat("the ", model.what.name, " model: ", report.source);
      all = report;
    }
    return all;
  }

  // What happens every N steps (0: never) and after the last one.
  bool IsDue(int64_t every, int64_t step) const { return every > 0 && (step % every == 0 || step == total_steps_); }

  bool EndsEpoch(int64_t step) { return step == total_steps_ || method_->EndsEpoch(step); }

  bool EvaluatesAt(int64_t step) {
    return IsDue(config_.eval().every(), step) || (config_.eval().every_epoch() && EndsEpoch(step));
  }

  bool WritesModelAt(int64_t step) const { return IsDue(config_.save().hf_every(), step); }

  bool SavesAt(int64_t step, bool improved) {
    const SaveConfig& save = config_.save();
    return IsDue(save.every(), step) || WritesModelAt(step) || (save.every_epoch() && EndsEpoch(step)) ||
           (save.final_from() == FINAL_FROM_BEST && improved);
  }

  Evaluation Evaluate(int64_t step) {
    const Span span(trace_.get(), "compute", "evaluate");
    const Clock::time_point start = Clock::now();
    Evaluation evaluation = method_->Evaluate(step);
    if (answers_) {
      evaluation.metrics.merge(answers_->Run(session_));
      evaluation.predictions = PredictionLines(answers_->predictions());
      evaluation.judged_by = EvaluationMetric(config_);
    }
    evaluation.seconds = SecondsSince(start);
    const bool keeps = job_.rank() == 0 && !evaluation.predictions.empty();
    if (keeps) WritePredictions(directory_, Concat("predictions-", step), evaluation.predictions);
    evaluation.predictions.clear();
    return evaluation;
  }

  // Before the first step, in a run that does not resume.
  bool EvaluatesAtStart() const { return config_.eval().at_start() && start_at_.step == 0; }

  // It counts for no checkpoint, because none has these weights.
  void EvaluateAtStart() {
    LoggedStep logged{.step = 0, .total_steps = total_steps_};
    logged.evaluation = Evaluate(0);
    logged.elapsed_seconds = SecondsSince(start_);
    if (report_) report_->Step(logged, /*logged=*/true);
  }

  static std::optional<double> CriterionOf(const std::optional<Evaluation>& evaluation) {
    return evaluation ? evaluation->criterion() : std::nullopt;
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

  void WriteTrace();

  const Config& config_;
  const MetricValues& predicted_;
  const LayerGraph& graph_;
  Job& job_;
  const DataSets data_;
  const int64_t total_steps_;
  const RunStart start_at_;
  const std::unique_ptr<AnswerEvaluator> answers_;  // with eval.generate
  BestEvaluation best_;
  int64_t done_;  // steps
  const std::filesystem::path directory_;
  std::unique_ptr<Trace> trace_;
  Session session_;
  Trainer trainer_;
  const std::unique_ptr<Method> method_;
  std::vector<SavedModel> others_;  // of the method
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
                 std::unique_ptr<Method> method, const RunOptions& options) {
  RefuseUnsupported(config);
  RefuseNoOutput(config);
  if (job.rank() == 0) {
    CheckReportPackages(config.log());
    CheckMetricCode(config.eval());
  }
  const ScreenOptions screen = ScreenOf(job.under_mpi(), options.report);
  WithTorchErrors(
      [&] {
        OutputLock lock(config.run().output(), job);
        const RunInputs inputs = OpenInputs(config, graph, plan, job, *method);
        if (IsComplete(config, inputs.start, inputs.total_steps)) {
          return SayComplete(inputs, job, NoticesOf(screen));
        }
        CheckInitialWeights(config, graph, inputs.start,
                            ProgressOf(config, {.rows = inputs.data.train->size()}).data());
        SayWhatBegins(inputs, DeviceText(config), job, NoticesOf(screen));
        if (lock.excludes_all()) RemoveWhatAKilledRunLeft(inputs.start.output);
        Run run(inputs, std::move(method), lock, job, screen, options.predicted);
        run.AllSteps();
        if (!run.stopped()) run.WriteFinal();
        run.Report();
      },
      options.planned_memory);
}

}  // namespace trireme
