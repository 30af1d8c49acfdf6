#include "checkpoint/memory_names.h"

#include <string_view>
#include <utility>

namespace trireme {
namespace {

constexpr std::string_view kModel = "model.", kLanguage = "model.language_model.";
constexpr std::string_view kVisual = "visual.", kVisualInMemory = "model.visual.";
// Of InternVL: in files and in memory.
constexpr std::pair<std::string_view, std::string_view> kInternVL[] = {
    {"language_model.model.", kLanguage},
    {"language_model.lm_head", "lm_head"},
    {"vision_tower.", "model.vision_tower."},
    {"multi_modal_projector.", "model.multi_modal_projector."}};

std::string Replaced(const std::string& name, std::string_view from, std::string_view to) {
  return std::string(to) + name.substr(from.size());
}

}  // namespace

bool HasOlderNames(const Json& model_config) {
  const Json family = model_config.value("model_type", Json());
  return family == "qwen2_5_vl" || family == "internvl";
}

std::string NameInMemory(const std::string& name) {
  if (name.starts_with(kVisual)) return Replaced(name, kVisual, kVisualInMemory);
  for (const auto& [file, memory] : kInternVL) {
    if (name.starts_with(file)) return Replaced(name, file, memory);
    if (name.starts_with(memory)) return name;
  }
  if (name.starts_with(kVisualInMemory) || !name.starts_with(kModel)) return name;
  return Replaced(name, kModel, kLanguage);
}

std::string NameInOlderFiles(const std::string& name, bool internvl) {
  for (const auto& [file, memory] : kInternVL) {
    if (internvl && name.starts_with(memory)) return Replaced(name, memory, file);
  }
  if (internvl) return name;
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
