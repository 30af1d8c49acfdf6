#include "models/reward_model.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "models/families.h"

namespace trireme {
namespace {

constexpr char kClassifier[] = "ForSequenceClassification";
// Families that transformers has none of.
constexpr std::string_view kWithoutClassifier[] = {
    "baichuan",    "bailing_moe", "bailing_moe_v2", "dots1",      "ernie4_5", "ernie4_5_moe", "exaone_moe",
    "gemma3_text", "glm4_moe",    "glm4_moe_lite",  "granite",    "hy_v3",    "internlm2",    "internlm3",
    "internvl",    "kimi_k2",     "minicpm",        "minimax_m2", "olmoe",    "qwen2_5_vl",   "qwen3_5",
    "qwen3_5_moe", "qwen3_vl",    "qwen3_vl_moe",   "solar_open"};

std::vector<int64_t> EndTokens(const Json& config) {
  const Json found = config.value("eos_token_id", Json());
  if (found.is_number_integer()) return {found.get<int64_t>()};
  std::vector<int64_t> ends;
  for (const Json& end : found.is_array() ? found : Json::array()) {
    if (end.is_number_integer()) ends.push_back(end.get<int64_t>());
  }
  return ends;
}

// The id of the tokenizer's special token of that name, where its files have one.
std::optional<int64_t> SpecialToken(const std::filesystem::path& directory, const char* name) {
  const std::filesystem::path settings = directory / "tokenizer_config.json", tokens = directory / "tokenizer.json";
  if (!PathExists(settings) || !PathExists(tokens)) return std::nullopt;
  Json token = ReadJsonFile(settings.string()).value(name, Json());
  if (token.is_object()) token = token.value("content", Json());
  if (!token.is_string()) return std::nullopt;
  for (const Json& added : ReadJsonFile(tokens.string()).value("added_tokens", Json::array())) {
    if (added.value("content", Json()) == token) return added.value("id", int64_t{-1});
  }
  return std::nullopt;
}

// transformers takes the score of the last token that is not padding. A padding token that also ends answers would hide
// their end: without one it takes the last token, one row at a time.
void SetPadding(Json& config, const std::filesystem::path& directory) {
  const Json own = config.value("pad_token_id", Json());
  const std::optional<int64_t> padding =
      own.is_number_integer() ? std::optional(own.get<int64_t>()) : SpecialToken(directory, "pad_token");
  std::vector<int64_t> ends = EndTokens(config);
  if (const auto end = SpecialToken(directory, "eos_token")) ends.push_back(*end);
  const bool usable = padding && *padding >= 0 && std::ranges::find(ends, *padding) == ends.end();
  config["pad_token_id"] = usable ? Json(*padding) : Json();
}

// What only logits have.
void LeaveLogitsOut(LayerGraph& graph) {
  Layer& head = graph.layers.back();
  auto& spec = std::get<HeadSpec>(head.spec);
  spec.tied = false;
  spec.logit_scale = 1;
  spec.soft_cap = 0;
  spec.normalised = false;
  head.hf_names.erase("logits.weight");
  graph.unused.emplace_back("lm_head.");
}

}  // namespace

bool IsClassifier(const HfConfig& config) { return config.Architecture().ends_with(kClassifier); }

bool IsRewardModel(const HfConfig& config) {
  if (!IsClassifier(config)) return false;
  if (config.Labels() == 1) return true;
  throw InputError(config.source(), ": is a classifier of ", config.Labels(),
                   " labels; wanted a reward model, which has num_labels 1");
}

void ReplaceHead(LayerGraph& graph, int64_t labels) {
  if (std::ranges::find(kWithoutClassifier, graph.family) != std::end(kWithoutClassifier)) {
    throw InputError(labels == 1 ? "a reward model" : "a classifier", " of the family ", graph.family,
                     ": transformers has no ", ClassNameOf(graph.family), kClassifier,
                     " that could load it; choose a model of another family");
  }
  Layer& head = graph.layers.back();
  auto& spec = std::get<HeadSpec>(head.spec);
  if (spec.scores) return;
  spec.scores = true;
  spec.vocabulary = labels;
  LeaveLogitsOut(graph);
  head.hf_names["score.weight"] = kScoreWeight;
}

void RemoveHead(LayerGraph& graph) {
  auto& spec = std::get<HeadSpec>(graph.layers.back().spec);
  spec.scores = true;
  spec.vocabulary = 0;
  LeaveLogitsOut(graph);
}

std::string RewardModelConfig(const std::string& text, const std::filesystem::path& directory) {
  const std::string where = (directory / "config.json").string();
  Json config = ParseJson(text, where);
  const HfConfig read(config, where);
  if (IsRewardModel(read)) return text;
  return ClassifierConfig(text, directory, {"LABEL_0"}, "");
}

std::string ClassifierConfig(const std::string& text, const std::filesystem::path& directory,
                             const std::vector<std::string>& labels, const std::string& problem) {
  const std::string where = (directory / "config.json").string();
  Json config = ParseJson(text, where);
  const HfConfig read(config, where);
  if (!IsClassifier(read)) {
    config["architectures"] = Json::array({ClassNameOf(read.Text("model_type")) + kClassifier});
    SetPadding(config, directory);
  }
  config["id2label"] = Json::object();
  config["label2id"] = Json::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    config["id2label"][std::to_string(i)] = labels[i];
    config["label2id"][labels[i]] = i;
  }
  config.erase("num_labels");
  if (!problem.empty()) config["problem_type"] = problem;
  return config.dump(2) + "\n";
}

std::string VectorModelConfig(const std::string& text, const std::filesystem::path& directory,
                              const std::vector<int64_t>& sizes) {
  const std::string where = (directory / "config.json").string();
  Json config = ParseJson(text, where);
  config["architectures"] = Json::array({ClassNameOf(HfConfig(config, where).Text("model_type")) + "Model"});
  if (!sizes.empty()) config["matryoshka_dimensions"] = sizes;
  return config.dump(2) + "\n";
}

}  // namespace trireme
