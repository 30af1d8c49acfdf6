#include "translate/swift_model.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/config/yaml_document.h"
#include "translate/model_names.h"

namespace trireme {
namespace {

// Without a factor max_model_len decides there, and data.max_length here.
void CheckRopeFactor(const Given& given, Translation& result) {
  const Setting* scaling = given.Find("rope_scaling");
  if (scaling == nullptr || !result.has("model.rope.kind") || result.has("model.rope.factor")) return;
  const Setting* longest = given.Find("max_model_len");
  if (longest == nullptr) return result.Refuse(scaling->origin, "neither a factor nor max_model_len is given");
  if (longest->value() != result.value("data.max_length"))
    result.Refuse(longest->origin, Concat("the factor is for this length there, for data.max_length = ",
                                          result.value("data.max_length"), " here; give rope_scaling a factor"));
}

// Adapters on all linear layers of the parts that are not frozen.
void SetTargetsOfParts(const Given& given, bool vision, bool aligner, Translation& result) {
  const std::string origin = "freeze_vit, freeze_aligner, freeze_llm";
  const std::string targets = given.Value("target_modules", "all-linear");
  if (targets != "all-linear") {
    return result.Refuse(origin, Concat("adapters outside the language model on ", targets, "; write tuning.targets"));
  }
  std::vector<std::string> parts;
  if (!given.IsOn("freeze_llm")) parts.push_back("all-linear");
  if (vision) parts.push_back("vision");
  if (aligner) parts.push_back("aligner");
  if (parts.empty()) return result.Refuse(origin, "nothing is left to train");
  result.Set("tuning.targets", parts, origin);
  if (given.Number("lora_dropout", 0.05) == 0) return;
  result.Set("tuning.dropout", std::string("0"), origin);
  result.Warn("lora_dropout", "adapters of the vision tower have no dropout here, and so none has");
}

// lora_llm: the tower and its mergers in full beside the language model's adapters.
void SetPartsInFull(const Setting& tuner, Translation& result) {
  if (!NamesSeeingModel(result.value("model.path")))
    return result.Refuse(tuner.origin, "the vision tower in full beside adapters, and the model's name tells of none");
  result.Set("tuning.modules_to_save", std::vector<std::string>{"vision", "aligner"}, tuner.origin);
  result.Set("tuning.dropout", std::string("0"), tuner.origin);
}

void SetFrozenParts(const Given& given, Translation& result) {
  const std::string tuner = given.Find("tuner_type") != nullptr ? "tuner_type" : "train_type";
  if (given.Value(tuner, "") == "lora_llm") return SetPartsInFull(*given.Find(tuner), result);
  const bool named = given.Find("freeze_vit") || given.Find("freeze_aligner") || given.Find("freeze_llm");
  if (!named && !NamesSeeingModel(result.value("model.path"))) return;
  const bool vision = given.IsOn("freeze_vit", true), aligner = given.IsOn("freeze_aligner", true);
  if (result.value("tuning.kind") == "lora") {
    if (vision && aligner && !given.IsOn("freeze_llm")) return;  // as it is here
    return SetTargetsOfParts(given, !vision, !aligner, result);
  }
  std::vector<std::string> parts;
  if (vision) parts.push_back("vision");
  if (aligner) parts.push_back("aligner");
  if (given.IsOn("freeze_llm")) parts.push_back("language");
  if (!parts.empty()) result.Set("tuning.freeze", parts, "freeze_vit, freeze_aligner, freeze_llm");
}

void SetRatesOfParts(const Given& given, Translation& result) {
  std::vector<std::string> rates;
  for (const auto& [name, part] : {std::pair("vit_lr", "vision"), std::pair("aligner_lr", "aligner")}) {
    const double rate = given.Number(name, 0), whole = std::strtod(result.value("optimizer.lr", "0").c_str(), nullptr);
    if (rate > 0 && whole > 0) rates.push_back(Concat(part, "=", rate / whole));
  }
  if (!rates.empty()) result.Set("optimizer.lr_by_name", rates, "vit_lr and aligner_lr over the learning rate");
}

void SetQuantisation(const Given& given, Translation& result) {
  const Setting* bits = given.Find("quant_bits");
  if (bits == nullptr || bits->off()) return;
  const std::string method = given.Value("quant_method", "bnb");
  if (method != "bnb")
    return result.Refuse(bits->origin, Concat("model.quantise packs as bitsandbytes does, not as ", method));
  if (bits->value() == "8") return result.Set("model.quantise", std::string("int8"), bits->origin);
  if (bits->value() != "4") return result.Refuse(bits->origin, "model.quantise has 4 and 8 bits");
  result.Set("model.quantise", given.Value("bnb_4bit_quant_type", "nf4"), bits->origin);
  result.Set("model.quantise_nested", std::string(given.IsOn("bnb_4bit_use_double_quant", true) ? "true" : "false"),
             bits->origin);
}

}  // namespace

void SetRope(const Setting& setting, Translation& result) {
  static const std::vector<std::string> kinds = {"linear", "dynamic", "yarn"};
  if (std::ranges::find(kinds, setting.value()) != kinds.end())
    return result.Set("model.rope.kind", setting.value(), setting.origin);
  const YAML::Node options = ParseYaml(setting.value(), {.name = "rope_scaling"});
  if (!options.IsMap()) return result.Refuse(setting.origin, "write model.rope.kind with model.rope.factor");
  for (const auto& entry : options) {
    const std::string name = entry.first.Scalar(), value = entry.second.IsScalar() ? entry.second.Scalar() : "";
    if (name == "type" || name == "rope_type") result.Set("model.rope.kind", value, setting.origin);
    if (name == "factor") result.Set("model.rope.factor", value, setting.origin);
    if (name == "original_max_position_embeddings") result.Set("model.rope.original_length", value, setting.origin);
  }
}

void SetProcessor(const Setting& setting, Translation& result) {
  const YAML::Node options = ParseYaml(setting.value(), {.name = setting.name});
  if (!options.IsMap()) return result.Refuse(setting.origin, "wanted a mapping");
  for (const auto& entry : options) {
    const std::string name = entry.first.Scalar();
    if (name == "max_pixels" || name == "min_pixels") {
      result.Set("model." + name, entry.second.Scalar(), setting.origin);
    } else {
      result.Refuse(setting.origin, Concat(name, " has no key here"));
    }
  }
}

void FinishSwiftModel(const Given& given, Translation& result) {
  CheckRopeFactor(given, result);
  SetFrozenParts(given, result);
  SetRatesOfParts(given, result);
  SetQuantisation(given, result);
}

}  // namespace trireme
