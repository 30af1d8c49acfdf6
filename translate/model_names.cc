#include "translate/model_names.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace trireme {
namespace {

struct NamePart {
  const char *part, *why;
};

constexpr NamePart kUnknown[] = {
    {"Omni", "models with audio"},
    {"Audio", "models with audio"},
    {"TTS", "models with audio"},
    {"Llama-4", "the family llama4"},
    {"gemma-4", "the family gemma4"},
    {"gemma-3n", "the family gemma3n"},
    {"diffusiongemma", "diffusion models"},
    {"MiniCPM-V", "the family minicpmv"},
    {"Ovis", "the family ovis"},
    {"deepseek-vl", "the family deepseek_vl"},
    {"OCR", "models for OCR"},
    {"Emu3", "the family emu3"},
    {"bert", "encoders"},
    {"gte-", "encoders"},
    {"jina-", "rerankers"},
    {"gme-", "embedding models"},
    {"Keye-VL", "the family keye_vl"},
    {"GLM-4.6V", "the family glm4v"},
    {"GLM-4.5V", "the family glm4v"},
    {"GLM-4.1V", "the family glm4v"},
    {"glm-4v", "the family glm4v"},
    {"Phi-4-multimodal", "the family phi4mm"},
    {"MOSS-VL", "the family moss_vl"},
    {"Nemotron", "the family nemotron"},
    {"Qwen2-VL", "the family qwen2_vl"},
    {"GPT-OSS-20B-A4B", "the family internvl over gpt_oss"},
    {"MiniMax-Text", "the family minimax_text"},
    {"mamba", "state-space models"},
    {"DeepSeek-V3.2", "the family deepseek_v32"},
    {"DeepSeek-V4", "the family deepseek_v4"},
    {"MiMo-", "the family mimo"},
    {"MiniCPM-o", "the family minicpmo"},
    {"GLM-5", "the family glm5"},
    {"-AQLM", "weights in AQLM"},
};

}  // namespace

void RefuseUnknownModel(Translation& result) {
  for (const char* key : {"model.path", "distillation.teacher", "reference"}) {
    const std::string name = result.value(key);
    for (const NamePart& one : kUnknown) {
      if (name.find(one.part) == std::string::npos) continue;
      result.Refuse(name, std::string("no family here reads it: ") + one.why);
      break;
    }
    const bool packed = name.find("-AWQ") != std::string::npos || name.find("-GPTQ") != std::string::npos;
    if (packed) result.Warn(name, "packed weights are decoded as they are read, and take the memory of plain ones");
    const bool own_names = name.starts_with("OpenGVLab/InternVL") && name.size() > 3 &&
                           name.compare(name.size() - 3, 3, "-hf") != 0 && name.compare(name.size() - 3, 3, "-HF") != 0;
    if (own_names) result.Warn(name, "names of InternVL's own code; take the same model whose name ends in -hf");
  }
}

bool NamesSeeingModel(const std::string& model) {
  constexpr const char* kParts[] = {"VL", "Vl", "Qwen3.5", "Qwen3.6"};
  return std::ranges::any_of(kParts, [&](const char* part) { return model.find(part) != std::string::npos; });
}

}  // namespace trireme
