#include "launch/model_source.h"

#include <filesystem>
#include <optional>

#include "checkpoint/adapter_config.h"
#include "checkpoint/manifest.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "launch/hub_model.h"
#include "launch/layout.h"
#include "session/rope_model.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The adapter's config, from a PEFT directory or a LoRA run's checkpoint; nothing if the path is neither.
std::optional<Json> AdapterConfigOf(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path / kAdapterConfigFile, ignored)) {
    const std::string file = (path / kAdapterConfigFile).string();
    return AdapterConfig(ReadTextFile(file), file).json();
  }
  if (!IsCheckpoint(path)) return std::nullopt;
  const std::string text = ReadManifest(path).adapter_config();
  return text.empty() ? std::nullopt : std::optional(AdapterConfig(text, path.string()).json());
}

// The directory that an adapter was trained on. A relative path is resolved from the working directory, as in
// PEFT.
std::string BaseOf(const fs::path& adapter, Job& job) {
  const std::optional<Json> config = AdapterConfigOf(adapter);
  if (!config) {
    throw InputError("--adapters ", adapter.string(), ": is not an adapter; wanted a directory with ",
                     kAdapterConfigFile, ", or a LoRA run's checkpoint-N");
  }
  const auto base = config->find("base_model_name_or_path");
  std::string name = base != config->end() && base->is_string() ? base->get<std::string>() : "";
  name = ModelHere(name, Concat(adapter.string(), ": its base model, which --model DIR may name"), job);
  std::error_code ignored;
  if (!name.empty() && fs::exists(fs::path(name) / "config.json", ignored)) return name;
  throw InputError(adapter.string(), ": ",
                   name.empty() ? "names no base model" : Concat("its base model ", name, " is not a directory here"),
                   "; give --model DIR");
}

ModelSource OfDirectory(const std::string& directory, const std::string& base, Job& job) {
  if (AdapterConfigOf(directory)) return {base.empty() ? BaseOf(directory, job) : base, directory};
  return {directory, ""};
}

ModelSource OfRun(const Config& config, Job& job) {
  const fs::path output = config.run().output();
  std::error_code ignored;
  if (!output.empty()) {
    const std::string& base = config.model().path();
    if (fs::exists(output / "final", ignored)) return OfDirectory((output / "final").string(), base, job);
    if (const auto newest = NewestComplete(output)) return OfDirectory(newest->path.string(), base, job);
  }
  throw InputError("run.output ",
                   output.empty() ? "is empty" : output.string() + " has neither final/ nor a checkpoint",
                   "; train first, or give --model DIR");
}

ModelSource SourceOf(const Arguments& arguments, const Config& config, Job& job) {
  if (arguments.has("model") && arguments.has("adapters"))
    return {ModelArgument(arguments, job), arguments.value("adapters")};
  if (arguments.has("model")) return OfDirectory(ModelArgument(arguments, job), "", job);
  if (arguments.has("adapters")) return {BaseOf(arguments.value("adapters"), job), arguments.value("adapters")};
  if (arguments.has(kRunFile)) return OfRun(config, job);
  throw InputError("no model; give --model DIR, --adapters DIR of an adapter that names its base, or the RUN.yaml of ",
                   "a run");
}

ModelSource WithWeights(ModelSource source, const Arguments& arguments, const Config& config) {
  const bool asked = arguments.Overrides("model.init");
  // With an adapter the base is as in the run: random weights are drawn again.
  source.has_weights = arguments.has(kRunFile) && !asked && source.model != config.model().path();
  return source;
}

}  // namespace

ModelSource FindModel(const Arguments& arguments, const Config& config, Job& job) {
  return WithWeights(SourceOf(arguments, config, job), arguments, config);
}

ModelSource FindBase(const Arguments& arguments, const Config& config, Job& job, const std::string& adapter) {
  const auto source = [&]() -> ModelSource {
    if (arguments.has("model")) return OfDirectory(ModelArgument(arguments, job), "", job);
    if (!adapter.empty()) return {BaseOf(adapter, job), ""};
    return SourceOf(arguments, config, job);
  };
  return WithWeights(source(), arguments, config);
}

std::string BaseModel(const Arguments& arguments, Job& job) {
  return arguments.has("model") ? ModelArgument(arguments, job) : BaseOf(arguments.value("adapters"), job);
}

void UseModel(const ModelSource& source, Config& config) {
  if (source.has_weights) config.mutable_model()->set_init(MODEL_INIT_WEIGHTS);
  config.mutable_model()->set_path(source.model);
  config.mutable_model()->set_path(RopeModel(config));
  config.mutable_multi_token_prediction()->Clear();
  config.mutable_tuning()->Clear();
  config.mutable_tuning()->set_kind(source.adapters.empty() ? TUNING_FULL : TUNING_LORA);
  config.mutable_tuning()->set_adapters(source.adapters);
}

}  // namespace trireme
