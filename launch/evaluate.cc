// `trireme evaluate`: loss, perplexity and token accuracy of a model on data, alone or over many ranks.
// Trains nothing and writes no file.
#include <cmath>
#include <iostream>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/tensor/torch_errors.h"
#include "launch/layout.h"
#include "launch/model_source.h"
#include "session/session.h"
#include "train/data/dataset.h"
#include "train/evaluator.h"

namespace trireme {
namespace {

// Plain files are opened like training data: all of it. What a run holds out of its training data
// is selected as the run selects it.
Rows RowsOf(const Arguments& arguments, Config config, int64_t vocabulary, const Job& job) {
  DataConfig& data = *config.mutable_data();
  const DataPlace place{.vocabulary = vocabulary, .works = job.local_rank() == 0, .reports = job.rank() == 0};
  if (arguments.has("data")) data.clear_valid();
  for (const std::string& path : arguments.values("data")) data.add_valid(path);
  if (data.valid().empty()) {
    config.mutable_run()->set_eval_every(1);  // so that the data is opened
    const bool aside = data.valid_ratio() > 0 || (data.split_size() > 1 && data.split(1) > 0);
    if (aside) return OpenDataSets(config, place).valid;
    throw InputError("nothing to evaluate on; give --data FILE, or set data.valid or data.valid_ratio");
  }
  config.mutable_run()->set_eval_every(0);
  config.mutable_run()->set_eval_every_epoch(false);
  data.mutable_train()->Swap(data.mutable_valid());
  data.clear_valid();
  data.clear_split();
  data.set_streaming(false);
  data.set_valid_ratio(0);
  return OpenDataSets(config, place).train;
}

void EvaluateModel(const Arguments& arguments, Job& job) {
  Config config = ConfigOf(arguments, job);
  UseModel(FindModel(arguments, config, job), config);
  PlannedModel model = PlanModel(config, job.world());
  const Rows rows = RowsOf(arguments, config, VocabularyOf(model.graph), job);
  Session session(config, std::move(model), job, {.trained = false});
  session.TakeWeights();
  const EvaluationSums sums = Evaluate(session, *rows);
  if (job.rank() != 0) return;
  std::cout << JsonLine({{"loss", sums.mean_loss()},
                         {"perplexity", std::exp(sums.mean_loss())},
                         {"token_accuracy", sums.accuracy()},
                         {"tokens", sums.tokens},
                         {"sequences", rows->size()}})
            << "\n";
}

constexpr const char* kEvaluateSummary =
    "Loss, perplexity and token accuracy of a model on data, as one JSON line. Given a RUN.yaml, it uses "
    "the run's result and data.valid (or what valid_ratio holds out), read as the run reads it.";

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
            .repeatable = true}},
      .positionals = {{.name = kRunFile,
                       .help =
                           "the run whose result, data and layout are used; by default all keys have their "
                           "defaults",
                       .required = false}},
      .takes_config = true,
      .run = [](const Arguments& arguments, Job& job) {
        WithTorchErrors([&] { EvaluateModel(arguments, job); });
      }};
}

}  // namespace trireme
