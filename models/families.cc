// The list of families. A new one is a file with its function and a line here: model_type, and the function, named as
// transformers' classes of the family begin.
#include "models/families.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/plausible.h"
#include "models/quantisation.h"
#include "models/reward_model.h"

// clang-format off
#define TRIREME_FAMILIES(FAMILY)             \
  FAMILY("baichuan", Baichuan)               \
  FAMILY("bailing_moe", BailingMoeV2)        \
  FAMILY("bailing_moe_v2", BailingMoeV2)     \
  FAMILY("deepseek_v2", DeepseekV2)          \
  FAMILY("deepseek_v3", DeepseekV3)          \
  FAMILY("dots1", Dots1)                     \
  FAMILY("ernie4_5", Ernie4_5)               \
  FAMILY("ernie4_5_moe", Ernie4_5_Moe)       \
  FAMILY("exaone4", Exaone4)                 \
  FAMILY("exaone_moe", ExaoneMoe)            \
  FAMILY("gemma", Gemma)                     \
  FAMILY("gemma2", Gemma2)                   \
  FAMILY("gemma3_text", Gemma3)              \
  FAMILY("glm", Glm)                         \
  FAMILY("glm4", Glm4)                       \
  FAMILY("glm4_moe", Glm4Moe)                \
  FAMILY("glm4_moe_lite", Glm4MoeLite)       \
  FAMILY("gpt_oss", GptOss)                  \
  FAMILY("granite", Granite)                 \
  FAMILY("hunyuan_v1_dense", HunYuanDenseV1) \
  FAMILY("hunyuan_v1_moe", HunYuanMoEV1)     \
  FAMILY("hy_v3", HYV3)                      \
  FAMILY("internlm2", InternLM2)             \
  FAMILY("internlm3", InternLM3)             \
  FAMILY("internvl", InternVL)               \
  FAMILY("kimi_k2", DeepseekV3)              \
  FAMILY("llama", Llama)                     \
  FAMILY("minicpm", MiniCPM)                 \
  FAMILY("minicpm3", MiniCPM3)               \
  FAMILY("minimax_m2", MiniMaxM2)            \
  FAMILY("ministral", Ministral)             \
  FAMILY("mistral", Mistral)                 \
  FAMILY("mixtral", Mixtral)                 \
  FAMILY("olmo2", Olmo2)                     \
  FAMILY("olmo3", Olmo3)                     \
  FAMILY("olmoe", Olmoe)                     \
  FAMILY("phi3", Phi3)                       \
  FAMILY("qwen2", Qwen2)                     \
  FAMILY("qwen2_5_vl", Qwen2_5_VL)           \
  FAMILY("qwen2_moe", Qwen2Moe)              \
  FAMILY("qwen3", Qwen3)                     \
  FAMILY("qwen3_5", Qwen3_5)                 \
  FAMILY("qwen3_5_moe", Qwen3_5Moe)          \
  FAMILY("qwen3_5_moe_text", Qwen3_5Moe)     \
  FAMILY("qwen3_5_text", Qwen3_5)            \
  FAMILY("qwen3_moe", Qwen3Moe)              \
  FAMILY("qwen3_next", Qwen3Next)            \
  FAMILY("qwen3_vl", Qwen3VL)                \
  FAMILY("qwen3_vl_moe", Qwen3VLMoe)         \
  FAMILY("seed_oss", SeedOss)                \
  FAMILY("smollm3", SmolLM3)                 \
  FAMILY("solar_open", SolarOpen)
// clang-format on

namespace trireme {

#define DECLARE(model_type, function) LayerGraph function(const HfConfig& config);
TRIREME_FAMILIES(DECLARE)
#undef DECLARE

namespace {

struct Family {
  const char* model_type;
  const char* class_name;
  LayerGraph (*build)(const HfConfig&);
};

#define LIST(model_type, function) {model_type, #function, function},
constexpr Family kFamilies[] = {TRIREME_FAMILIES(LIST)};
#undef LIST

const Family& FindFamily(const std::string& model_type, const std::string& source) {
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return family;
  }
  if (model_type == "internvl_chat") {
    throw InputError(
        source,
        ": model_type 'internvl_chat' has the names of InternVL's own code; use the directory of the same model ",
        "in transformers' format, whose name ends in -hf (such as OpenGVLab/InternVL3-8B-hf)");
  }
  if (model_type == "chatglm") {
    throw InputError(source,
                     ": model_type 'chatglm' has the names of GLM's own code; use the directory of the same model in ",
                     "transformers' format, whose name ends in -hf (such as zai-org/glm-4-9b-chat-hf)");
  }
  throw InputError(source, ": model_type '", model_type, "' is not supported; supported: ", Join(KnownFamilies()));
}

}  // namespace

LayerGraph BuildGraph(const HfConfig& config) {
  CheckPlausible(config);
  const HfConfig read = config.Afresh();
  LayerGraph graph = FindFamily(read.Text("model_type"), read.source()).build(read);
  if (IsClassifier(read)) ReplaceHead(graph, read.Labels());
  CheckQuantisation(read);
  read.RefuseUnread();
  return graph;
}

std::string ClassNameOf(const std::string& model_type) { return FindFamily(model_type, "config.json").class_name; }

std::vector<std::string> KnownFamilies() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

}  // namespace trireme
