// Reward models: a value head in place of the logits. In files they are …ForSequenceClassification with one label, as
// transformers, TRL and ms-swift write them. No weights: only graph and config.json.
#pragma once

#include <filesystem>
#include <string>

#include "models/hf_config.h"
#include "parallel/graph/graph.h"

namespace trireme {

// The value head's weight, [1, hidden], in files.
inline constexpr char kScoreWeight[] = "score.weight";
inline constexpr char kScoreModule[] = "score";

// Whether the config is a reward model's. Refuses a classifier of more than one label.
bool IsRewardModel(const HfConfig& config);

// Gives the graph a value head; its lm_head, tied or not, is not needed.
void ReplaceHead(LayerGraph& graph);

// The config.json of the reward model that a model becomes by training; that of a reward model stays as it is.
// `directory` has the model's tokenizer files, by which the padding token is found.
std::string RewardModelConfig(const std::string& text, const std::filesystem::path& directory);

}  // namespace trireme
