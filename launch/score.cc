// `trireme score`: what a reward model gives each conversation of a file, alone or over many ranks. Trains nothing.
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/io/atomic_file.h"
#include "core/tensor/torch_errors.h"
#include "data/answer_samples.h"
#include "data/answer_tokens.h"
#include "data/image_marks.h"
#include "data/image_rows.h"
#include "data/record_fields.h"
#include "data/records.h"
#include "data/tokenise.h"
#include "launch/layout.h"
#include "launch/model_source.h"
#include "session/session.h"
#include "session/value_head.h"
#include "stages/stage.h"
#include "train/step/sequence_scores.h"

namespace trireme {
namespace {

// The rows of one record: a conversation's, or both sides' of a pair.
std::vector<Row> ScoredRowsOf(const AnswerSample& sample, const SampleTokenizer& tokenizer, int64_t vocabulary) {
  std::vector<Row> rows;
  for (const StoredRow& side : TokeniseAnswers(sample, tokenizer, vocabulary)) {
    rows.push_back({{side.ids.begin(), side.ids.end()}, std::vector<int64_t>(side.ids.size(), kNotTrained)});
    rows.back().images = side.images;
    for (const RowImage& image : side.images) rows.back().grids.push_back(image.grid);
  }
  return rows;
}

AnswerSample ReadScoredIn(Json record, const SampleOptions& options, const std::filesystem::path& folder) {
  AnswerSample sample = ReadScored(std::move(record), options);
  std::visit([&](auto& answers) { answers.images = ResolvedImages(std::move(answers.images), folder); }, sample);
  return sample;
}

// What is scored, by record of the file, and the images of a model that sees.
struct Scored {
  std::vector<std::vector<Row>> records;
  std::shared_ptr<const ImageReader> images;  // nullptr: none has any
};

Scored ReadConversations(const std::string& path, const Config& config, int64_t vocabulary) {
  const DataConfig& data = config.data();
  const ModelConfig& model = config.model();
  const SampleOptions options{RenamedColumns(data), data.system(), SeesImages(model.path()), ReplacedTextsOf(data)};
  // Every conversation is scored as it is, however long.
  const SampleTokenizer tokenizer({.model = model.path(),
                                   .chat_template = data.template_(),
                                   .records = Records::kPairs,
                                   .template_values = TemplateValuesOf(data),
                                   .sees = HasImageSettings(model.path()),
                                   .min_pixels = model.min_pixels(),
                                   .max_pixels = model.max_pixels()});
  const std::unique_ptr<RecordFile> records = OpenRecords(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  Scored scored;
  for (int64_t i = 0; i < records->size(); ++i) {
    scored.records.push_back(UseRecord(*records, i, [&](Json record) {
      return ScoredRowsOf(ReadScoredIn(std::move(record), options, folder), tokenizer, vocabulary);
    }));
    for (const Row& side : scored.records.back()) {
      if (!side.images.empty()) scored.images = tokenizer.images();
    }
  }
  if (scored.records.empty()) throw InputError(path, ": has no records");
  return scored;
}

std::string ScoreLines(const std::vector<std::vector<Row>>& conversations, const std::vector<double>& scores,
                       double bias) {
  std::string text;
  size_t next = 0;
  for (const std::vector<Row>& sides : conversations) {
    Json line = {{"score", scores[next] + bias}};
    if (sides.size() == 2) line["rejected_score"] = scores[next + 1] + bias;
    next += sides.size();
    text += JsonLine(line) + "\n";
  }
  return text;
}

// As transformers runs it: in the type of its files, unless a run's file or --set says another.
std::optional<DType> ScoringTypeOf(const Arguments& arguments, const LayerGraph& graph) {
  if (arguments.has(kRunFile) || arguments.Overrides("model.dtype")) return std::nullopt;
  return graph.dtype == DType::kBf16 ? DType::kBf16 : DType::kFp32;
}

void Score(const Arguments& arguments, Job& job) {
  Config config = ConfigOf(arguments, job);
  if (arguments.has("output")) RefuseToOverwrite("--output", arguments.value("output"));
  UseModel(FindModel(arguments, config, job), config);
  PlannedModel model = PlanModel(config, job.world(), HeadKind::kScore);
  const double bias = ScoreBiasOf(config, model.graph);
  const auto [conversations, images] = ReadConversations(arguments.value("data"), config, VocabularyOf(model.graph));
  std::vector<Row> list;
  for (const std::vector<Row>& sides : conversations) list.insert(list.end(), sides.begin(), sides.end());
  Rows rows = std::make_shared<RowList>(std::move(list));
  if (images) rows = ImageRows(rows, images, static_cast<size_t>(config.data().image_cache_mb()) << 20);
  const std::optional<DType> dtype = ScoringTypeOf(arguments, model.graph);
  Session session(config, std::move(model), job, {.trained = false, .dtype = dtype});
  session.TakeWeights();
  const std::vector<double> scores = SequenceScoresOf(session, *rows);
  if (job.rank() != 0) return;
  const std::string lines = ScoreLines(conversations, scores, bias);
  if (!arguments.has("output")) {
    std::cout << lines << std::flush;
    return;
  }
  WriteAtomicFile(arguments.value("output"), lines);
  std::cout << "wrote the scores of " << Counted(std::ssize(conversations), "record") << " to "
            << arguments.value("output") << "\n";
}

}  // namespace

Command ScoreCommand() {
  return {
      .name = "score",
      .summary =
          "The score that a reward model gives each conversation of a file, one JSON line {\"score\": …} per "
          "record; of a pair also \"rejected_score\".",
      .options =
          {{.name = "model",
            .value_name = "DIR",
            .help =
                "a reward model: …ForSequenceClassification with one label, a causal model with "
                "value_head.safetensors, or a checkpoint-N; by default the base that --adapters names, or the run's "
                "final/ or newest checkpoint"},
           {.name = "adapters",
            .value_name = "DIR",
            .help = "a PEFT LoRA adapter of a reward model, or a checkpoint-N of one, applied on top of the model's "
                    "weights"},
           {.name = "data",
            .value_name = "FILE",
            .help = "what to score: messages; prompt and completion; pairs; or tokens as input_ids",
            .required = true},
           {.name = "output", .value_name = "FILE", .help = "write the lines into a new file instead"}},
      .positionals = {{.name = kRunFile,
                       .help = "the run whose result, data keys and layout are used; by default all keys have their "
                               "defaults",
                       .required = false}},
      .takes_config = true,
      .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { Score(arguments, job); }); }};
}

}  // namespace trireme
