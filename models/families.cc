#include "models/families.h"

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "models/plausible.h"

namespace trireme {
namespace {

struct Family {
  const char* model_type;
  LayerGraph (*build)(const HfConfig&);
};

constexpr Family kFamilies[] = {
    {"deepseek_v2", DeepseekV2},
    {"deepseek_v3", DeepseekV3},
    {"llama", Llama},
    {"mixtral", Mixtral},
    {"qwen2", Qwen2},
    {"qwen2_moe", Qwen2Moe},
    {"qwen3", Qwen3},
    {"qwen3_moe", Qwen3Moe},
};

}  // namespace

LayerGraph BuildGraph(const HfConfig& config) {
  CheckPlausible(config);
  const std::string model_type = config.Text("model_type");
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return family.build(config);
  }
  throw InputError(config.source(), ": model_type '", model_type,
                   "' is not known; known: ", Join(KnownFamilies()));
}

std::vector<std::string> KnownFamilies() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

}  // namespace trireme
