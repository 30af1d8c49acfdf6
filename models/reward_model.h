// Reward models and classifiers: a value head in place of the logits. In files they are …ForSequenceClassification,
// reward models with one label, as transformers, TRL and ms-swift write them. And models of vectors, which have no
// head. No weights: only graph and config.json.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/hf_config.h"
#include "parallel/graph/graph.h"

namespace trireme {

// The value head's weight, [labels, hidden], in files.
inline constexpr char kScoreWeight[] = "score.weight";
inline constexpr char kScoreModule[] = "score";

// Whether the config is a classifier's, of one label or several.
bool IsClassifier(const HfConfig& config);
// Whether it is a reward model's. Refuses a classifier of more than one label.
bool IsRewardModel(const HfConfig& config);

// Gives the graph a value head; its lm_head, tied or not, is not needed.
void ReplaceHead(LayerGraph& graph, int64_t labels = 1);
// Leaves the graph without a head: its hidden states are what it gives.
void RemoveHead(LayerGraph& graph);

// The config.json of the reward model that a model becomes by training; that of a reward model stays as it is.
// `directory` has the model's tokenizer files, by which the padding token is found.
std::string RewardModelConfig(const std::string& text, const std::filesystem::path& directory);
// The same of a classifier with these names of labels. problem: transformers' problem_type; empty: none.
std::string ClassifierConfig(const std::string& text, const std::filesystem::path& directory,
                             const std::vector<std::string>& labels, const std::string& problem);
// That of a model of vectors: transformers' base class. sizes: what they can be cut to (Matryoshka), where vLLM looks
// for it; none: the model's own config stays.
std::string VectorModelConfig(const std::string& text, const std::filesystem::path& directory,
                              const std::vector<int64_t>& sizes = {});

}  // namespace trireme
