#include "launch/text_directory.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/config/load.h"
#include "launch/layout.h"
#include "models/hf_config.h"
#include "models/reward_model.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// "sentence_transformers.models.Pooling", or of newer versions "….modules.pooling.Pooling", to "Pooling".
std::string ClassOf(const Json& module) {
  const std::string type = module.value("type", "");
  return type.substr(type.rfind('.') + 1);
}

Json ObjectAt(const fs::path& file) {
  Json json = ReadJsonFile(file.string());
  if (!json.is_object()) throw InputError(file.string(), ": is not a JSON object");
  return json;
}

std::string PoolingNamed(const std::string& name, const std::string& where) {
  if (name == "cls") return "first";
  if (name == "mean") return "mean";
  if (name == "lasttoken") return "last";
  throw InputError(where, ": pools by '", name, "'; supported are lasttoken, mean and cls");
}

// Flags of sentence-transformers up to 5, one name in newer versions.
std::string PoolingOf(const fs::path& file) {
  const Json json = ObjectAt(file);
  std::vector<std::string> names;
  if (const Json mode = json.value("pooling_mode", Json()); mode.is_string()) {
    names.push_back(mode.get<std::string>());
  } else if (mode.is_array()) {
    for (const Json& name : mode) names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  }
  const std::pair<const char*, const char*> flags[] = {{"pooling_mode_cls_token", "cls"},
                                                       {"pooling_mode_mean_tokens", "mean"},
                                                       {"pooling_mode_lasttoken", "lasttoken"},
                                                       {"pooling_mode_max_tokens", "max"},
                                                       {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
                                                       {"pooling_mode_weightedmean_tokens", "weightedmean"}};
  for (const auto& [flag, name] : flags) {
    if (names.empty() || json.contains(flag)) {
      if (json.value(flag, false)) names.emplace_back(name);
    }
  }
  if (names.size() != 1) {
    throw InputError(file.string(), ": names ", names.size(), " poolings; supported is one of lasttoken, mean and cls");
  }
  if (!json.value("include_prompt", true)) {
    throw InputError(file.string(), ": include_prompt is false; supported is true, prompts are pooled like texts");
  }
  return PoolingNamed(names[0], file.string());
}

// The longest text, where the module of the transformer says it.
std::optional<int64_t> LongestOf(const fs::path& directory) {
  const fs::path file = directory / "sentence_bert_config.json";
  if (!PathExists(file)) return std::nullopt;
  const Json json = ObjectAt(file);
  if (json.value("do_lower_case", false))
    throw InputError(file.string(), ": do_lower_case is true; supported is false");
  if (json.value("modality_config", Json::object()).contains("message")) {
    throw InputError(file.string(), ": modality_config has message: sentence-transformers puts texts into the chat ",
                     "template; supported is text alone. Leave it out there if the model was trained on plain texts");
  }
  const Json length = json.value("max_seq_length", Json());
  return length.is_number_integer() && length.get<int64_t>() > 0 ? std::optional(length.get<int64_t>()) : std::nullopt;
}

void TakePrompts(const fs::path& file, TextDirectory& found) {
  if (!PathExists(file)) return;
  const Json json = ObjectAt(file);
  const Json prompts = json.value("prompts", Json::object());
  for (const auto& [name, prompt] : prompts.items()) {
    if (prompt.is_string()) found.prompts[name] = prompt.get<std::string>();
  }
  const Json name = json.value("default_prompt_name", Json());
  if (name.is_string()) found.default_prompt = name.get<std::string>();
  if (found.default_prompt.empty() || found.prompts.contains(found.default_prompt)) return;
  throw InputError(file.string(), ": default_prompt_name is '", found.default_prompt, "', which prompts does not have");
}

TextDirectory OfModules(const fs::path& directory) {
  const fs::path file = directory / "modules.json";
  TextDirectory found{.model = directory.string()};
  std::string pooling, normalize = "false";
  for (const Json& module : ReadJsonFile(file.string())) {
    const std::string kind = ClassOf(module);
    const fs::path place = directory / module.value("path", "");
    if (kind == "Transformer") {
      found.model = place.lexically_normal().string();
    } else if (kind == "Pooling") {
      pooling = PoolingOf(place / "config.json");
    } else if (kind == "Normalize") {
      normalize = "true";
    } else {
      throw InputError(file.string(), ": has the module ", kind, "; supported are Transformer, Pooling and Normalize; ",
                       "of a reranker by the logits of two tokens say --set stage=reranker ",
                       "--set retrieval.generative=true");
    }
  }
  if (pooling.empty()) throw InputError(file.string(), ": has no module Pooling; wanted Transformer, then Pooling");
  found.settings = {"stage=embedding", "retrieval.pooling=" + pooling, "retrieval.normalize=" + normalize};
  found.longest = LongestOf(found.model);
  TakePrompts(directory / "config_sentence_transformers.json", found);
  return found;
}

// The sizes that a vector can be cut to, as vLLM reads them from config.json.
void AddSizes(const HfConfig& config, TextDirectory& found) {
  std::string sizes;
  for (const int64_t size : config.Integers("matryoshka_dimensions")) sizes += Concat(sizes.empty() ? "" : ", ", size);
  if (!sizes.empty()) found.settings.push_back("retrieval.matryoshka=[" + sizes + "]");
}

// Of sentence-transformers' CrossEncoder: the classifier is the only module.
bool IsClassifierAlone(const fs::path& directory) {
  const Json modules = ReadJsonFile((directory / "modules.json").string());
  return modules.size() == 1 && PathExists(directory / "config.json") && IsClassifier(HfConfig::Read(directory));
}

}  // namespace

TextDirectory ReadTextDirectory(const std::string& directory) {
  const fs::path path(directory);
  if (PathExists(path / "modules.json") && !IsClassifierAlone(path)) {
    TextDirectory found = OfModules(path);
    AddSizes(HfConfig::Read(found.model), found);
    return found;
  }
  TextDirectory found{.model = directory};
  if (!PathExists(path / "config.json")) return found;
  const HfConfig config = HfConfig::Read(path);
  if (!IsClassifier(config)) return found;
  const std::string problem = config.Has("problem_type") ? config.Text("problem_type") : "";
  if (config.Labels() == 1 && problem != "regression" && problem != "multi_label_classification") {
    found.settings = {"stage=reranker"};
    return found;
  }
  found.settings = {"stage=classification"};
  if (problem == "regression") found.settings.emplace_back("retrieval.problem=regression");
  if (problem == "multi_label_classification") found.settings.emplace_back("retrieval.problem=multi_label");
  return found;
}

Config ConfigOfTexts(const Arguments& arguments, const Config& config, ModelSource& source, Job& job) {
  if (arguments.has(kRunFile) || arguments.Overrides("stage")) return config;
  const TextDirectory found = ReadTextDirectory(source.model);
  source.model = found.model;
  return found.settings.empty() ? config : DefaultConfigOf(arguments, found.settings, job);
}

}  // namespace trireme
