// The model families, one line each in families.cc, by the model_type of their config.json.
#pragma once

#include <string>
#include <vector>

#include "models/hf_config.h"
#include "parallel/graph/graph.h"

namespace trireme {

LayerGraph DeepseekV2(const HfConfig& config);
LayerGraph DeepseekV3(const HfConfig& config);
LayerGraph Llama(const HfConfig& config);
LayerGraph Mixtral(const HfConfig& config);
LayerGraph Qwen2(const HfConfig& config);
LayerGraph Qwen2Moe(const HfConfig& config);
LayerGraph Qwen3(const HfConfig& config);
LayerGraph Qwen3Moe(const HfConfig& config);

// The graph of the config's family; an unknown model_type is refused, with the known ones.
LayerGraph BuildGraph(const HfConfig& config);

std::vector<std::string> KnownFamilies();

}  // namespace trireme
