// `trireme evaluate`: loss, perplexity and token accuracy of a model on data, alone or over many ranks; with --generate
// also scores of the answers that it writes, and these; of models of vectors, scores and labels their metrics. Trains
// nothing.
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/io/atomic_file.h"
#include "core/tensor/torch_errors.h"
#include "data/dataset.h"
#include "launch/hub_data.h"
#include "launch/layout.h"
#include "launch/model_source.h"
#include "launch/text_directory.h"
#include "session/session.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"
#include "train/evaluation/answer_evaluator.h"
#include "train/evaluation/answer_metrics.h"
#include "train/evaluation/evaluator.h"
#include "train/methods/retrieval/retrieval_evaluation.h"
#include "train/plan/check_answers.h"

namespace trireme {
namespace {

// Plain files are opened like training data: all of it. What a run holds out of its training data
// is selected as the run selects it.
Rows RowsOf(Config config, int64_t vocabulary, const Job& job) {
  DataConfig& data = *config.mutable_data();
  const DataPlace place{.vocabulary = vocabulary, .works = job.local_rank() == 0, .reports = job.rank() == 0};
  config.mutable_eval()->clear_batches();
  if (data.valid().empty()) {
    config.mutable_eval()->set_every(1);  // so that the data is opened
    const bool aside = data.valid_ratio() > 0 || (data.split_size() > 1 && data.split(1) > 0);
    if (aside) return OpenDataSets(config, place).valid;
    throw InputError("nothing to evaluate on; give --data FILE, or set data.valid or data.valid_ratio");
  }
  config.mutable_eval()->set_every(0);
  config.mutable_eval()->set_every_epoch(false);
  data.mutable_train()->Swap(data.mutable_valid());
  data.clear_valid();
  data.clear_split();
  data.set_streaming(false);
  data.set_valid_ratio(0);
  return OpenDataSets(config, place).train;
}

// The data that is asked for, and no other: what is on a hub is downloaded.
void AskForData(const Arguments& arguments, Config& config, Job& job) {
  DataConfig& data = *config.mutable_data();
  if (arguments.has("data")) data.clear_valid();
  for (const std::string& path : arguments.values("data")) data.add_valid(path);
  if (!data.valid().empty()) data.clear_train();
  HaveHubData(config, job);
}

// What is asked of the model, refused before any weights are read.
Config EvaluatedConfig(const Arguments& arguments, Job& job) {
  Config config = ConfigOf(arguments, job);
  ModelSource source = FindModel(arguments, config, job);
  config = ConfigOfTexts(arguments, config, source, job);
  UseModel(source, config);
  AskForData(arguments, config, job);
  EvalConfig& eval = *config.mutable_eval();
  if (TrainsTexts(FactsOf(config))) {
    for (const char* name : {"generate", "predictions"}) {
      if (arguments.has(name)) {
        throw InputError("--", name, ": stage ", FactsOf(config).name, " writes no answers; leave it out");
      }
    }
    eval.set_generate(false);
    return config;
  }
  if (FactsOf(config).on_completions()) {  // a run of it generates, but what is compared here are the data's answers
    eval.set_generate(false);
    if (eval.max_new_tokens() == 0) eval.set_max_new_tokens(config.rl().max_new_tokens());
  }
  if (arguments.has("generate")) eval.set_generate(true);
  CheckAnswerEvaluation(config);
  if (job.rank() == 0 && eval.generate()) CheckMetricCode(eval);
  if (!arguments.has("predictions")) return config;
  if (!config.eval().generate()) throw InputError("--predictions is for answers; add --generate");
  if (job.rank() == 0) RefuseToOverwrite("--predictions", arguments.value("predictions"));
  return config;
}

// Empty where nothing says where: neither --predictions nor the output of a run.
std::string SavePredictions(const Arguments& arguments, const Config& config,
                            const std::vector<Prediction>& predictions) {
  if (arguments.has("predictions")) {
    WriteAtomicFile(arguments.value("predictions"), PredictionLines(predictions));
    return arguments.value("predictions");
  }
  const std::string& output = config.run().output();
  if (!arguments.has(kRunFile) || output.empty() || !PathExists(output)) return "";
  return WritePredictions(output, "predictions-evaluate", PredictionLines(predictions)).string();
}

// As a run of such a stage evaluates itself, but on all records.
void EvaluateTexts(Session& session, const RowSource& rows) {
  const Evaluation found = RetrievalEvaluation(session).Run(rows);
  if (session.job().rank() != 0) return;
  Json line = {{"loss", *found.loss}, {"records", rows.size()}};
  for (const auto& [name, value] : found.metrics) line[name] = value;
  std::cout << JsonLine(line) << "\n";
}

void EvaluateModel(const Arguments& arguments, Job& job) {
  const Config config = EvaluatedConfig(arguments, job);
  PlannedModel model = PlanModel(config, job.world());
  const Rows rows = RowsOf(config, VocabularyOf(model.graph), job);
  if (TrainsTexts(FactsOf(config))) {
    Session session(config, std::move(model), job, {.trained = false});
    session.TakeWeights();
    return EvaluateTexts(session, *rows);
  }
  std::optional<AnswerEvaluator> answers;
  if (config.eval().generate()) answers.emplace(config, *rows);
  Session session(config, std::move(model), job, {.trained = false});
  session.TakeWeights();
  const EvaluationSums sums = Evaluate(session, *rows);
  const MetricValues scores = answers ? answers->Run(session) : MetricValues();
  if (job.rank() != 0) return;
  Json line = {{"loss", sums.mean_loss()},
               {"perplexity", std::exp(sums.mean_loss())},
               {"token_accuracy", sums.accuracy()},
               {"tokens", sums.tokens},
               {"sequences", rows->size()}};
  for (const auto& [name, value] : scores) line[name] = value;
  const std::string saved = answers ? SavePredictions(arguments, config, answers->predictions()) : "";
  if (!saved.empty()) line["predictions"] = saved;
  std::cout << JsonLine(line) << "\n";
}

constexpr const char* kEvaluateSummary =
    "Loss, perplexity and token accuracy of a model on data, as one JSON line. Given a RUN.yaml, it uses "
    "the run's result and data.valid (or what valid_ratio holds out), read as the run reads it. With --generate the "
    "model also writes the last answer of each conversation, as the section eval of RUN.yaml says: exact match, ROUGE "
    "and BLEU are in the line, too. Of models of vectors, scores and labels (stages embedding, reranker, "
    "classification; "
    "without a RUN.yaml as the model's directory says) the line has what their runs log: nDCG, MRR, recall, accuracy, "
    "F1.";

}  // namespace

Command EvaluateCommand() {
  return {
      .name = "evaluate",
      .summary = kEvaluateSummary,
      .options =
          {{.name = "model",
            .value_name = "DIR",
            .help = "a Hugging Face model directory, or a checkpoint-N; by default the base that --adapters "
                    "names, or the run's final/ or newest checkpoint"},
           {.name = "adapters",
            .value_name = "DIR",
            .help = "a PEFT LoRA adapter, or a checkpoint-N of one, applied on top of the model's weights"},
           {.name = "data",
            .value_name = "FILE",
            .help = "what to evaluate on, in the notation of data.valid, which it overrides",
            .repeatable = true},
           {.name = "generate", .help = "write answers and compare them with the data's: sets eval.generate"},
           {.name = "predictions",
            .value_name = "FILE",
            .help =
                "with --generate: a new file for prompts, predictions and labels, one JSON object per line; by default "
                "predictions-evaluate.jsonl in the output of the run of RUN.yaml, and no file without one"}},
      .positionals = {{.name = kRunFile,
                       .help = "the run whose result, data and layout are used; by default all keys have their "
                               "defaults",
                       .required = false}},
      .takes_config = true,
      .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { EvaluateModel(arguments, job); }); }};
}

}  // namespace trireme
