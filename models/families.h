// The model families, one line each in families.cc, by the model_type of their config.json.
#pragma once

#include <string>
#include <vector>

#include "models/hf_config.h"
#include "parallel/graph/graph.h"

namespace trireme {

// The graph of the config's family. Refuses an unknown model_type and lists the known ones.
LayerGraph BuildGraph(const HfConfig& config);

std::vector<std::string> KnownFamilies();

// How transformers' classes of the family begin: "Qwen3Moe". Refuses an unknown model_type.
std::string ClassNameOf(const std::string& model_type);

}  // namespace trireme
