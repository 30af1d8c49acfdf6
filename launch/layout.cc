#include "launch/layout.h"

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/config/load.h"
#include "launch/hub_model.h"
#include "session/derived_model.h"
#include "train/states/run_record.h"

namespace trireme {
namespace {

ModelFinder FinderOf(Job& job, HubParts parts) {
  return [&job, parts](const std::string& path, const std::string& key) { return ModelHere(path, key, job, parts); };
}

// A run that goes on keeps what its own run.yaml has where the file says nothing and the default depends on the stage.
Config LoadRun(const Arguments& arguments, const Job& job) {
  const std::string file = arguments.value(kRunFile);
  Config config = LoadConfig(file, arguments.overrides());
  const std::optional<Config> earlier = ResumedSettings(config.run());
  if (!earlier) return config;
  Config kept = LoadConfig(file, arguments.overrides(), &*earlier);
  for (const KeyDifference& one : DifferingKeys(config, kept)) {
    if (job.rank() != 0) continue;
    TRIREME_LOG(INFO) << one.key << " stays " << one.now
                      << ", as in the run.yaml of the run that goes on; its default is " << one.before;
  }
  return kept;
}

}  // namespace

Config WithModelDirectories(Config config, const ModelFinder& find) {
  const auto replace = [&](const std::string& name, const char* key, const auto& set) {
    const std::string directory = find(name, key);
    if (directory != name) set(directory);  // a key that nobody set stays so
  };
  replace(config.model().path(), "model.path",
          [&](const std::string& path) { config.mutable_model()->set_path(path); });
  replace(config.tuning().adapters(), "tuning.adapters",
          [&](const std::string& path) { config.mutable_tuning()->set_adapters(path); });
  replace(config.reference(), "reference", [&](const std::string& path) { config.set_reference(path); });
  replace(config.distillation().teacher(), "distillation.teacher",
          [&](const std::string& path) { config.mutable_distillation()->set_teacher(path); });
  const std::string derived = DerivedModel(config);
  if (derived != config.model().path()) config.mutable_model()->set_path(derived);
  return config;
}

Config ConfigOf(const Arguments& arguments, Job& job, HubParts parts) {
  Config config =
      arguments.has(kRunFile) ? LoadRun(arguments, job) : ParseConfig("", "defaults", arguments.overrides());
  return WithModelDirectories(std::move(config), FinderOf(job, parts));
}

Config DefaultConfigOf(const Arguments& arguments, std::vector<std::string> settings, Job& job) {
  settings.insert(settings.end(), arguments.overrides().begin(), arguments.overrides().end());
  return WithModelDirectories(ParseConfig("", "defaults", settings), FinderOf(job, HubParts::kAll));
}

Config ModelConfigOf(const Arguments& arguments, Job& job, const std::string& adapters) {
  std::vector<std::string> said;
  if (!arguments.has(kRunFile)) said = {"tuning.kind=full", "tuning.dropout=0"};
  if (!adapters.empty()) {
    said.push_back("tuning.kind=lora");
    said.push_back("tuning.adapters=" + JsonLine(adapters));
  }
  for (const std::string& text : arguments.overrides()) said.push_back(text);
  Config config =
      arguments.has(kRunFile) ? LoadConfig(arguments.value(kRunFile), said) : ParseConfig("", "defaults", said);
  config.mutable_model()->set_path(arguments.value("model"));
  return WithModelDirectories(std::move(config), FinderOf(job, HubParts::kAll));
}

std::string ModelArgument(const Arguments& arguments, Job& job) {
  return ModelHere(arguments.value("model"), "--model", job);
}

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
