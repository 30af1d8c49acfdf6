#include "board/run_config.h"

#include <yaml-cpp/yaml.h>

#include "core/base/error.h"
#include "core/config/yaml_document.h"

namespace trireme {
namespace {

void AddKeys(const YAML::Node& node, const std::string& prefix, Json& keys) {
  for (const auto& entry : node) {
    const std::string key = prefix + entry.first.as<std::string>();
    if (entry.second.IsMap()) {
      AddKeys(entry.second, key + ".", keys);
      continue;
    }
    YAML::Emitter text;
    text << YAML::Flow << entry.second;
    keys.push_back({key, std::string(text.c_str())});
  }
}

}  // namespace

Json ConfigKeys(const std::string& yaml, const std::string& name) {
  Json keys = Json::array();
  const YAML::Node root = ParseYaml(yaml, {.name = name});
  if (!root.IsNull() && !root.IsMap()) throw InputError(name, ": wanted keys");
  try {
    AddKeys(root, "", keys);
  } catch (const YAML::Exception& error) {
    throw InputError(name, ": ", error.what());
  }
  return keys;
}

}  // namespace trireme
