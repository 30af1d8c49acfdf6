#include "launch/push_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "checkpoint/adapter_config.h"
#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/config/load.h"
#include "web/hub/hub_name.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kCardFile[] = "README.md", kIndexEnd[] = ".safetensors.index.json", kWeightsEnd[] = ".safetensors";

// States of optimizers, schedules and random numbers, as trainers name them.
bool IsTrainingState(const std::string& name) {
  if (name == "scheduler.pt" || name == "training_args.bin" || name == "trainer_state.json" || name == "scaler.pt")
    return true;
  return name.starts_with("optimizer") || name.starts_with("rng_state") || name.starts_with("distrib_optim");
}

bool IsUnfinished(const std::string& name) {
  return name.ends_with(".part") || name.find(".part-") != std::string::npos || name.ends_with(".incomplete");
}

bool IsLeftOut(const fs::path& path) {
  return std::ranges::any_of(path, [](const fs::path& part) {
    const std::string name = part.string();
    return name.starts_with(".") || IsTrainingState(name) || IsUnfinished(name);
  });
}

// Weights that a model.safetensors.index.json names must be there.
void CheckIndex(const fs::path& index) {
  const Json json = ReadJsonFile(index.string());
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object())
    throw InputError(index.string(), ": has no weight_map; push the directory that a run or trireme convert wrote");
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (shard.is_string()) shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) {
    if (!PathExists(index.parent_path() / shard))
      throw InputError(index.string(), ": names ", shard, ", which is not there; nothing was sent");
  }
}

void CheckDirectory(const fs::path& directory) {
  if (!fs::is_directory(directory))
    throw InputError(directory.string(), ": is no directory; name a run's OUTPUT/final, or what trireme convert wrote");
  if (IsCheckpoint(directory))
    throw InputError(directory.string(),
                     ": is a checkpoint, which no other program reads; make a Hugging Face directory ",
                     "of it with trireme convert");
  bool has_weights = false;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kIndexEnd)) CheckIndex(entry.path());
    has_weights = has_weights || (name.ends_with(kWeightsEnd) && !IsLeftOut(name));
  }
  const bool described = PathExists(directory / "config.json") || PathExists(directory / kAdapterConfigFile);
  if (has_weights && described) return;
  const fs::path final_directory = directory / "final";
  throw InputError(
      directory.string(), ": has no ", has_weights ? "config.json or adapter_config.json" : "*.safetensors",
      "; wanted a model or a PEFT adapter", PathExists(final_directory) ? ", such as " + final_directory.string() : "");
}

// The configuration of the run whose final/ the directory is.
std::string BaseOfRun(const fs::path& directory) {
  const fs::path run = fs::absolute(directory / "..").lexically_normal() / "run.yaml";
  if (!PathExists(run)) return "";
  try {
    return LoadConfig(run.string()).model().path();
  } catch (const Error&) {
    return "";  // somebody else's run.yaml
  }
}

std::string BaseOfAdapter(const fs::path& directory) {
  const fs::path config = directory / kAdapterConfigFile;
  const Json json = PathExists(config) ? ReadJsonFile(config.string()) : Json();
  return json.is_object() ? json.value("base_model_name_or_path", "") : "";
}

// A place on this machine says nothing to others.
std::string PublicBase(const std::string& base) {
  return !PathExists(base) && ParseHubName(base) ? base.substr(0, base.find('@')) : "";
}

std::string CardOf(const fs::path& directory, const std::string& name) {
  const bool adapter = PathExists(directory / kAdapterConfigFile);
  const std::string of_adapter = adapter ? BaseOfAdapter(directory) : "";
  const std::string base = PublicBase(of_adapter.empty() ? BaseOfRun(directory) : of_adapter);
  std::string card = Concat("---\nlibrary_name: ", adapter ? "peft" : "transformers", "\n");
  if (!base.empty()) card += Concat("base_model: ", base, "\n");
  card += Concat("tags:\n- trireme\n", adapter ? "- lora\n" : "", "---\n\n# ", name.substr(name.find('/') + 1), "\n\n");
  card += Concat(adapter ? "A LoRA adapter" : "A model",
                 base.empty() ? "" : Concat(adapter ? " for " : " made from ", base), ", trained with Trireme.\n");
  return card;
}

}  // namespace

PushedFiles FilesToPush(const std::string& directory, const std::string& name) {
  CheckDirectory(directory);
  PushedFiles pushed;
  for (auto entry = fs::recursive_directory_iterator(directory); entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path path = entry->path().lexically_relative(directory);
    if (IsLeftOut(path)) {
      pushed.left_out.push_back(path.generic_string());
      if (entry->is_directory()) entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      pushed.files.push_back({.path = path.generic_string(), .file = entry->path()});
    }
  }
  pushed.has_made_card = !PathExists(fs::path(directory) / kCardFile);
  if (pushed.has_made_card) pushed.files.push_back({.path = kCardFile, .file = {}, .text = CardOf(directory, name)});
  std::ranges::sort(pushed.files, {}, &UploadFile::path);
  std::ranges::sort(pushed.left_out);
  return pushed;
}

}  // namespace trireme
