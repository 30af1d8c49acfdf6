// `trireme grads`: one forward and backward pass over given rows under the given layout; writes every
// gradient, unsharded, under its Hugging Face name. Shows that a layout changes nothing.
#include <ATen/core/Tensor.h>

#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/config/unused_keys.h"
#include "core/io/atomic_file.h"
#include "core/tensor/torch_errors.h"
#include "data/answer_rows.h"
#include "data/image_rows.h"
#include "data/text_rows.h"
#include "launch/layout.h"
#include "models/families.h"
#include "session/session.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"
#include "train/methods/distillation/distillation.h"
#include "train/methods/policy/policy.h"
#include "train/methods/preference/preference.h"
#include "train/methods/retrieval/retrieval.h"
#include "train/plan/other_graphs.h"
#include "train/rollouts/given_advantages.h"
#include "train/step/row_log_probs.h"
#include "train/step/trainer.h"
#include "train/step/whole_gradients.h"

namespace trireme {
namespace {

void WriteGradients(const std::string& path, const std::map<std::string, at::Tensor>& gradients) {
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, gradient] : gradients) {
    tensors.push_back({name, DType::kFp32, gradient.sizes().vec(), gradient.data_ptr()});
  }
  WriteSafetensors(path, std::move(tensors));
}

// One JSON line per row: the log-probability of each label; null for untrained tokens.
void WriteLogProbs(const std::string& path, const std::vector<std::vector<double>>& rows) {
  std::string text;
  for (const std::vector<double>& row : rows) {
    Json values = Json::array();
    for (const double value : row) values.push_back(std::isnan(value) ? Json() : Json(value));
    text += JsonLine({{"log_probs", values}}) + "\n";
  }
  WriteAtomicFile(path, text);
}

void Grads(const Arguments& arguments, Job& job) {
  const Config config = ModelConfigOf(arguments, job, arguments.value("adapters"));
  const bool wants_log_probs = arguments.has("log-probs");
  if (wants_log_probs) RefuseToOverwrite("--log-probs", arguments.value("log-probs"));
  PlannedModel model = PlanModel(config, job.world());
  RefuseUnusedKeys(config);
  CheckStage(config);
  const StageFacts& facts = FactsOf(config);
  if (facts.baseline == Baseline::kValues) {
    throw InputError(
        "stage: ppo: its advantages come from a value model that a run trains; use stage: grpo with advantages in ",
        "the rows, or train with rl.rollouts");
  }
  const bool preference = facts.method == MethodKind::kPreference, policy = facts.on_completions();
  const std::string& path = arguments.value("rows");
  const int64_t vocabulary = VocabularyOf(model.graph);
  if (facts.method == MethodKind::kDistillation) CheckOtherModels(config, model.graph);
  std::vector<Row> rows;
  std::vector<Rollout> rollouts;
  if (policy) {
    rollouts = ReadGivenAdvantages(path, vocabulary, config);
  } else if (TrainsTexts(facts)) {
    rows = ReadTextRows(path, vocabulary, config);
  } else {
    const ImageInputs* const images = model.graph.images ? &*model.graph.images : nullptr;
    rows = preference ? ReadAnswerRows(path, vocabulary, config, images) : ReadRows(path, vocabulary, images);
    LoadRowImages(rows, path, {config.model().path(), config.model().min_pixels(), config.model().max_pixels()});
  }
  if ((preference || policy || TrainsTexts(facts)) && wants_log_probs)
    throw InputError("--log-probs is for rows with labels; leave stage out");
  const bool weighted = !preference && !policy && !TrainsTexts(facts) && !rows.front().weights.empty();
  if ((weighted || wants_log_probs) && config.multi_token_prediction().depths() > 0) {
    throw InputError("multi_token_prediction.depths = ", config.multi_token_prediction().depths(),
                     ": weights and log-probabilities are those of the next token alone; set it to 0");
  }

  Session session(config, std::move(model), job, {.dtype = DType::kFp32});
  session.TakeWeights();
  Trainer trainer(session, weighted || wants_log_probs ? "log_probs" : "");
  double loss = 0;
  MetricValues metrics;
  int64_t tokens = CountTrained(rows);
  if (policy) {
    PolicyPass pass(trainer);
    if (facts.method == MethodKind::kDistillation) FollowReference(pass, trainer);
    if (pass.reference() != nullptr) pass.reference()->TakeStart();
    pass.BeginGiven(rollouts);
    loss = pass.Pass(0);
    metrics = pass.metrics();
    for (int64_t row = 0; row < pass.rows().size(); ++row) tokens += pass.rows().Trained(row);
  } else if (preference) {
    PreferencePass pass(trainer);
    if (pass.reference() != nullptr) pass.reference()->TakeStart();
    std::vector<int64_t> all(rows.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    const RowList list(rows);
    pass.Precompute(list, {.rows = list.size(), .batch = list.size(), .shuffle = false}, /*steps=*/1, nullptr);
    loss = pass.Pass(list, all, /*step=*/1);
    metrics = pass.metrics();
  } else if (TrainsTexts(facts)) {
    const RowList list(rows);
    loss = RetrievalPass(trainer).Pass(list, AllRows(list));
    tokens = 0;
    for (const Row& row : rows) tokens += std::ssize(row.input_ids);
  } else if (wants_log_probs) {
    const RowLogProbs found = PassForLogProbs(trainer, rows);
    loss = found.loss;
    if (job.rank() == 0) WriteLogProbs(arguments.value("log-probs"), found.rows);
  } else {
    loss = trainer.Pass(rows);
  }
  const GradientReport report = trainer.FinishGradients();
  const ExpertBalance balance = trainer.TakeBalance();
  const auto gradients =
      GatherGradients(session.graph(), trainer.optimizer().Gradients(), trainer.world(), trainer.tensors().torch());
  if (job.rank() != 0) return;
  if (!std::isfinite(loss) || !std::isfinite(report.norm)) {
    throw RuntimeError("the loss is ", loss, " and the norm of the gradients ", report.norm,
                       "; nothing was written. Look for weights, advantages or numbers of config.json out of range");
  }
  WriteGradients(arguments.value("out"), gradients);
  Json line = {{"loss", loss}, {"tokens", tokens}, {"grad_norm", report.norm}};
  for (const auto& [name, value] : metrics) line[name] = value;
  if (!trainer.mtp_losses().empty()) line["mtp_loss"] = trainer.mtp_losses();
  if (!balance.empty()) line["experts"] = balance.ToJson();
  std::cout << JsonLine(line) << "\n";
}

// "kto, bco".
std::string StagesWith(Records records) {
  std::vector<std::string> names;
  for (const StageFacts& facts : AllStages()) {
    if (facts.records == records) names.emplace_back(facts.name);
  }
  return Join(names);
}

}  // namespace

Command GradsCommand() {
  return {
      .name = "grads",
      .summary =
          "One forward and backward pass over given rows, in fp32; writes the gradient of every trained "
          "parameter, unsharded.",
      .options =
          {{.name = "model", .value_name = "DIR", .help = "a Hugging Face model directory", .required = true},
           {.name = "rows",
            .value_name = "ROWS.jsonl",
            .help = Concat(
                "one {\"input_ids\": […], \"labels\": […]} per line; labels are not shifted, -100: not trained. With "
                "\"weights\": […], one per label, the loss is minus the weighted sum of the labels' log-probabilities. "
                "Models that see: also \"pixel_values\": \"FILE.safetensors\", \"image_grid_thw\": [[1, height, "
                "width], …], "
                "what the image processor makes of the row's images, or \"images\": [\"FILE\", …] for it to make. "
                "With --set stage=…: {\"prompt_ids\": […], \"chosen_ids\": […], \"rejected_ids\": […]} (dpo, orpo, "
                "simpo, "
                "cpo), {\"prompt_ids\": […], \"completion_ids\": […], \"label\": true} (",
                StagesWith(Records::kJudged),
                "), {\"chosen_ids\": […], \"rejected_ids\": […], \"margin\": 0.0} (rm), "
                "{\"prompt_ids\": […], \"completion_ids\": […], \"advantage\": 0.5, \"old_logprobs\": […]} (grpo, "
                "rloo, "
                "reinforce_plus_plus; the last is optional), {\"prompt_ids\": […], \"completion_ids\": […]} (gkd), "
                "{\"text_ids\": [[…], […]]} (embedding: anchor, positive, negatives; or anchor and documents with "
                "\"labels\"; reranker: documents with their query in them, and \"labels\"), {\"input_ids\": […], "
                "\"label\": 1} (classification)"),
            .required = true},
           {.name = "adapters",
            .value_name = "DIR",
            .help = "a PEFT LoRA adapter, or a LoRA run's checkpoint-N, whose gradients are written instead"},
           {.name = "log-probs",
            .value_name = "FILE",
            .help = "also write each label's log-probability, one {\"log_probs\": […]} per row, into a new file"},
           {.name = "out", .value_name = "FILE", .help = "the .safetensors file to write", .required = true}},
      .positionals = {{.name = kRunFile,
                       .help = "the run whose layout is used; by default all keys have their defaults",
                       .required = false}},
      .takes_config = true,
      .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { Grads(arguments, job); }); }};
}

}  // namespace trireme
