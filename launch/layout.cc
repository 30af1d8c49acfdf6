#include "launch/layout.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/load.h"
#include "core/io/hub_cache.h"
#include "session/grown_model.h"

namespace trireme {

Config WithModelDirectories(Config config) {
  const auto find = [](const std::string& name, const char* key, const auto& set) {
    const std::string directory = ModelDirectory(name, key);
    if (directory != name) set(directory);  // a key that nobody set stays so
  };
  find(config.model().path(), "model.path", [&](const std::string& path) { config.mutable_model()->set_path(path); });
  find(config.tuning().adapters(), "tuning.adapters", [&](const std::string& path) { config.mutable_tuning()->set_adapters(path); });
  find(config.reference(), "reference", [&](const std::string& path) { config.set_reference(path); });
  find(config.distillation().teacher(), "distillation.teacher",
       [&](const std::string& path) { config.mutable_distillation()->set_teacher(path); });
  const std::string grown = GrownModel(config);
  if (grown != config.model().path()) config.mutable_model()->set_path(grown);
  return config;
}

Config ConfigOf(const Arguments& arguments) {
  if (arguments.has(kRunFile)) return WithModelDirectories(LoadConfig(arguments.value(kRunFile), arguments.overrides()));
  return WithModelDirectories(ParseConfig("", "defaults", arguments.overrides()));
}

Config ModelConfigOf(const Arguments& arguments, const std::string& adapters) {
  std::vector<std::string> said;
  if (!arguments.has(kRunFile)) said = {"tuning.kind=full", "tuning.dropout=0"};
  if (!adapters.empty()) {
    said.push_back("tuning.kind=lora");
    said.push_back("tuning.adapters=" + JsonLine(adapters));
  }
  for (const std::string& text : arguments.overrides()) said.push_back(text);
  Config config = arguments.has(kRunFile) ? LoadConfig(arguments.value(kRunFile), said)
                                          : ParseConfig("", "defaults", said);
  config.mutable_model()->set_path(arguments.value("model"));
  return WithModelDirectories(std::move(config));
}

std::string ModelArgument(const Arguments& arguments) { return ModelDirectory(arguments.value("model"), "--model"); }

void RefuseToOverwrite(const std::string& option, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    throw InputError(option, " ", path, " already exists; remove it or choose another name");
  }
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    throw InputError(option, " ", path, ": no such directory: ", folder.string());
  }
}

}  // namespace trireme
