#include "translate/swift_texts.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

// A loss scale of ms-swift by name, as entries of data.loss_weights.
struct LossScaleName {
  const char* name;
  std::vector<std::string> weights;
};

const std::vector<LossScaleName>& LossScaleNames() {
  static const std::vector<LossScaleName> names = {
      {"hermes", {"<tool_call>...</tool_call>=2"}},
      {"react", {"Action:=2", "Action Input:=2", "Thought:=1", "Final Answer:=1", "Observation:=2 0"}},
      {"alpha_umi", {"Action:=2", "Action Input:=2", "Thought:=1", "Final Answer:=1", "Observation:=2 0", "Next:=2"}},
      {"qwen", {"✿FUNCTION✿:=2", "✿ARGS✿:=2", "✿RETURN✿:=1", "✿RESULT✿:=2 0"}},
  };
  return names;
}

const LossScaleName* FindLossScale(const std::string& name) {
  for (const LossScaleName& one : LossScaleNames()) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

const char* BaseStrategy(const std::string& name) {
  if (name == "default") return "answers";
  if (name == "last_round" || name == "all") return name.c_str();
  return nullptr;
}

}  // namespace

void SetLossScale(const Setting& setting, Translation& result) {
  std::vector<std::string> weights;
  std::istringstream names(setting.value());
  for (std::string name; std::getline(names, name, '+');) {
    if (const char* base = BaseStrategy(name)) {
      result.Set("data.loss", std::string(base), setting.origin);
    } else if (name == "ignore_empty_think") {
      result.Set("data.skip_empty_think", std::string("true"), setting.origin);
    } else if (const LossScaleName* scale = FindLossScale(name); scale != nullptr && weights.empty()) {
      weights = scale->weights;
    } else {
      return result.Refuse(setting.origin, Concat("data.loss_weights has no entries for the loss_scale ", name,
                                                  scale != nullptr ? " beside another one" : ""));
    }
  }
  if (!weights.empty()) result.Set("data.loss_weights", weights, setting.origin);
}

void SetPlaceholders(const Given& given, Translation& result) {
  std::vector<std::string> entries, origins;
  for (const auto& [name, placeholder] :
       {std::pair("model_name", "{{NAME}}"), std::pair("model_author", "{{AUTHOR}}")}) {
    const Setting* setting = given.Find(name);
    if (setting == nullptr || setting->values.empty()) continue;
    const std::vector<std::string>& names = setting->values;  // in Chinese and in other records, or in all
    entries.push_back(Concat(placeholder, "=", names.back()));
    origins.push_back(setting->origin);
    if (names.size() > 1 && names.front() != names.back())
      result.Warn(setting->origin,
                  Concat("records in Chinese have ", names.front(), " there, and ", names.back(), " here"));
  }
  if (!entries.empty()) result.Set("data.replace", entries, Join(origins, ", "));
}

}  // namespace trireme
