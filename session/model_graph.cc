#include "session/model_graph.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "checkpoint/hf_directory.h"
#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "models/families.h"
#include "models/reward_model.h"
#include "models/text_labels.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/rope.h"
#include "session/file_names.h"
#include "session/fp8.h"
#include "session/packing.h"
#include "session/tuning.h"
#include "stages/ppo_check.h"
#include "stages/retrieval_check.h"

namespace trireme {
namespace {

constexpr std::string_view kBasePrefix = "model.";

bool HasModelFiles(const std::filesystem::path& directory) {
  return PathExists(directory / "model.safetensors") || PathExists(directory / "model.safetensors.index.json");
}

// Directories of transformers' base classes, as sentence-transformers writes them, name tensors without the prefix that
// models with a head give it. What a run writes is then named so, too.
void TakeBaseClassNames(LayerGraph& graph, const std::filesystem::path& directory) {
  if (!HasModelFiles(directory)) return;
  const HfDirectory files(directory);
  for (const Layer& layer : graph.layers) {
    for (const auto& [role, name] : layer.hf_names) {
      if (!name.starts_with(kBasePrefix) || files.Has(name)) return;
    }
  }
  for (Layer& layer : graph.layers) {
    for (auto& [role, name] : layer.hf_names) name = name.substr(kBasePrefix.size());
  }
}

// How many numbers a value head gives in this use.
int64_t LabelsWanted(const Config& config) {
  if (FactsOf(config).records != Records::kLabelled) return 1;
  return std::ssize(LabelNamesOf(config.retrieval(), config.model().path()));
}

// A reward model, or a classifier, is trained from a causal one, whose value head is new, or from one of its kind.
void TakeValueHead(LayerGraph& graph, const Config& config, HeadKind head) {
  const bool has_one = HasValueHead(graph);
  if (head != HeadKind::kScore) {
    if (!has_one) return;
    throw InputError(config.model().path(),
                     ": is a reward model or a classifier, which has scores in place of logits; ",
                     "train it with stage: rm, reranker or classification, or let it score with `trireme score`");
  }
  const int64_t labels = LabelsWanted(config);
  if (!has_one) {
    ReplaceHead(graph, labels);
    graph.drawn.insert(kScoreWeight);
    return;
  }
  const int64_t given = std::get<HeadSpec>(graph.layers.back().spec).vocabulary;
  if (given == labels) return;
  throw InputError(config.model().path(), ": is a classifier of ", given, " labels; wanted ",
                   labels == 1 ? "a reward model or a reranker, which has num_labels 1" : Concat(labels, " labels"));
}

// Of stage ppo. After the tuning, none of whose targets means this head: it is always trained in full. A reference
// beside the policy has one, too, which nothing reads: so it can follow the policy weight by weight.
void AddPolicyValues(LayerGraph& graph, const Config& config) {
  if (!PolicyHasValues(config)) return;
  Layer& head = graph.layers.back();
  std::get<HeadSpec>(head.spec).values = true;
  for (const auto& [role, name] :
       {std::pair("value.weight", kValueHeadWeight), std::pair("value.bias", kValueHeadBias)}) {
    head.hf_names[role] = name;
    if (head.trained) head.trained->insert(role);
    graph.drawn.insert(name);
  }
}

// Where the length of a document decides about its rotary embedding, answers of different lengths have different keys
// for the same prompt.
void RefuseSharedPrompts(const LayerGraph& graph, const Config& config) {
  const RopeSpec* rope = LengthDependentRope(graph);
  const bool policy = FactsOf(config).on_completions(), pairs = FactsOf(config).records == Records::kPairs;
  const bool shares = (policy && config.rl().share_prompt()) || (pairs && config.preference().share_prompt());
  if (rope == nullptr || !shares || config.data().max_length() <= LengthLimit(*rope)) return;
  throw InputError(policy ? "rl" : "preference", ".share_prompt: the rotary embedding of ", config.model().path(),
                   " differs between sequences of up to ", LengthLimit(*rope),
                   " tokens and longer ones, data.max_length is ", config.data().max_length(),
                   ", and answers of both kinds cannot share a prompt; set share_prompt: false, or a "
                   "smaller max_length");
}

}  // namespace

LayerGraph ReadGraph(const Config& config) { return ReadGraph(config, HeadOf(config)); }

LayerGraph ReadGraph(const Config& config, HeadKind head) {
  if (config.model().path().empty()) {
    throw InputError("model.path is empty; set it to the directory of a Hugging Face model");
  }
  LayerGraph graph = BuildGraph(HfConfig::Read(config.model().path()));
  TakeFileNames(graph, std::filesystem::path(config.model().path()));
  TakeValueHead(graph, config, head);
  if (head == HeadKind::kVector) {
    RemoveHead(graph);
    TakeBaseClassNames(graph, config.model().path());
  }
  ApplyMultiToken(graph, config);
  ApplyTuning(graph, config.tuning());
  if (head == HeadKind::kLogits) AddPolicyValues(graph, config);
  ApplyPacking(graph, config);
  ApplyFp8(graph, config);
  if (head == HeadKind::kLogits) RefuseSharedPrompts(graph, config);
  return graph;
}

}  // namespace trireme
