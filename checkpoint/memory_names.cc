#include "checkpoint/memory_names.h"

#include <string_view>
#include <utility>

namespace trireme {
namespace {

constexpr std::string_view kModel = "model.", kLanguage = "model.language_model.";
constexpr std::string_view kVisual = "visual.", kVisualInMemory = "model.visual.";

std::string Replaced(const std::string& name, std::string_view from, std::string_view to) {
  return std::string(to) + name.substr(from.size());
}

}  // namespace

bool HasOlderNames(const Json& model_config) { return model_config.value("model_type", Json()) == "qwen2_5_vl"; }

std::string NameInMemory(const std::string& name) {
  if (name.starts_with(kVisual)) return Replaced(name, kVisual, kVisualInMemory);
  if (name.starts_with(kLanguage) || name.starts_with(kVisualInMemory) || !name.starts_with(kModel)) return name;
  return Replaced(name, kModel, kLanguage);
}

std::string NameInOlderFiles(const std::string& name) {
  if (name.starts_with(kVisualInMemory)) return Replaced(name, kVisualInMemory, kVisual);
  return name.starts_with(kLanguage) ? Replaced(name, kLanguage, kModel) : name;
}

Json ConfigInMemory(Json adapter_config) {
  for (const char* key : {"target_modules", "modules_to_save"}) {
    if (!adapter_config.contains(key) || !adapter_config[key].is_array()) continue;
    for (Json& name : adapter_config[key]) name = NameInMemory(name.get<std::string>());
  }
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    if (!adapter_config.contains(key) || !adapter_config[key].is_object()) continue;
    Json renamed = Json::object();
    for (const auto& [name, value] : adapter_config[key].items()) renamed[NameInMemory(name)] = value;
    adapter_config[key] = std::move(renamed);
  }
  return adapter_config;
}

}  // namespace trireme
