#include "checkpoint/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <re2/re2.h>

#include "checkpoint/memory_names.h"
#include "core/base/error.h"

namespace trireme {
namespace {

bool IsExpert(const std::string& module) { return module.find(".experts.") != std::string::npos; }

// The rank and alpha that most modules have; patterns list the others.
AdapterModule Commonest(const AdapterPlan& plan) {
  std::map<std::pair<int64_t, double>, int> counts;
  AdapterModule best;
  int most = 0;
  for (const auto& [name, module] : plan.modules) {
    const int count = ++counts[{module.rank, module.alpha}];
    if (count > most) most = count, best = module;
  }
  return best;
}

bool Matches(const std::string& module, const re2::RE2& names) {
  for (const std::string& name : {module, NameInTransformers(module), NameInMemory(module)}) {
    if (RE2::FullMatch(name, names) || RE2::FullMatch(name + ".weight", names)) return true;
  }
  return false;
}

constexpr char kRankPattern[] = "rank_pattern";

// Read here, with their types.
constexpr std::string_view kRead[] = {"alpha_pattern", "bias", "init_lora_weights", "lora_alpha",
                                      "peft_type",     "r",    "rank_pattern",      "target_parameters"};
constexpr std::string_view kFlags[] = {"ensure_weight_tying", "use_dora", "use_rslora"};
constexpr std::string_view kUnsupportedFlags[] = {"fan_in_fan_out", "lora_bias", "use_qalora"};
// What the file is and how it was trained and started; which modules have adapters is what the tensors say.
constexpr std::string_view kWithoutEffectOnAdapters[] = {
    "auto_mapping",   "base_model_name_or_path", "corda_config",   "eva_config",      "exclude_modules",
    "inference_mode", "layers_pattern",          "loftq_config",   "lora_dropout",    "lora_ga_config",
    "megatron_core",  "layers_to_transform",     "merge_weights",  "modules_to_save", "peft_version",
    "revision",       "qalora_group_size",       "runtime_config", "target_modules",  "task_type",
};

template <size_t N>
bool IsOneOf(const std::string_view (&keys)[N], std::string_view key) {
  return std::ranges::find(keys, key) != std::end(keys);
}

// The rule of config.json: a key is read, listed, or refused.
void CheckKey(const std::string& key, const Json& value, const std::string& where) {
  if (value.is_null() || key.starts_with('_') || IsOneOf(kRead, key) || IsOneOf(kWithoutEffectOnAdapters, key)) return;
  const bool unsupported = IsOneOf(kUnsupportedFlags, key);
  if (unsupported || IsOneOf(kFlags, key)) {
    if (!value.is_boolean()) {
      throw InputError(where, ": ", key, " is ", value.dump().substr(0, 60), "; wanted true or false");
    }
    if (unsupported && value == true) throw InputError(where, ": ", key, " is true, which is not supported");
    return;
  }
  throw InputError(
      where, ": ", key, " is ", value.dump().substr(0, 60),
      ", and this key is not supported: it may change what the adapter computes. If it does not, rename it ", "to _",
      key, ", which is ignored");
}

// A rank of an adapter, of the key r or of a pattern.
void CheckRank(const Json& value, const std::string& where, const std::string& key) {
  if (value.is_number_integer() && value.get<int64_t>() >= 1) return;
  throw InputError(where, ": ", key, " is ", value.dump().substr(0, 60), "; wanted a positive integer");
}

// An alpha: larger values are meaningless and would overflow fp32.
void CheckSize(const Json& value, const std::string& where, const std::string& key) {
  constexpr double kMost = 1e30;
  const double size = value.get<double>();
  if (!(size > -kMost && size < kMost)) {
    throw InputError(where, ": ", key, " is ", value.dump(), "; wanted a number that fits in fp32");
  }
}

}  // namespace

std::string NameInTransformers(std::string name) {
  const std::string other = Concat(".", kMixtralBlock, ".");
  const size_t place = name.find(other);
  return place == std::string::npos ? name : name.replace(place, other.size(), ".mlp.");
}

AdapterConfig::AdapterConfig(const std::string& text, const std::string& where) : config_(ParseJson(text, where)) {
  Check(where);
  ranks_ = Patterns(kRankPattern, where);
  alphas_ = Patterns("alpha_pattern", where);
}

void AdapterConfig::Check(const std::string& where) const {
  if (!config_.is_object()) throw InputError(where, ": is not a JSON object");
  if (!config_.contains("peft_type") || config_["peft_type"] != "LORA") {
    throw InputError(where, ": peft_type is ", config_.contains("peft_type") ? config_["peft_type"].dump() : "missing",
                     "; only LORA adapters are supported");
  }
  for (const auto& [key, value] : config_.items()) CheckKey(key, value, where);
  if (config_.contains("bias") && config_["bias"] != "none") {
    throw InputError(where, ": bias is ", config_["bias"].dump(), ", which is not supported; wanted \"none\"");
  }
  for (const char* key : {"lora_alpha", "r"}) {
    if (!config_.contains(key) || !config_[key].is_number()) throw InputError(where, ": ", key, " is missing");
  }
  CheckSize(config_["lora_alpha"], where, "lora_alpha");
  CheckRank(config_["r"], where, "r");
}

std::string AdapterConfig::init() const {
  const std::string word = config_.contains("init_lora_weights") && config_["init_lora_weights"].is_string()
                               ? config_["init_lora_weights"].get<std::string>()
                               : "";
  const bool changes =
      word.starts_with("pissa") || word == "olora" || word == "corda" || word == "loftq" || word == "lora_ga";
  return changes ? word : "";
}

std::vector<AdapterConfig::Pattern> AdapterConfig::Patterns(const char* key, const std::string& where) const {
  std::vector<Pattern> patterns;
  if (!config_.contains(key) || config_[key].is_null()) return patterns;
  if (!config_[key].is_object()) throw InputError(where, ": ", key, " is not an object of patterns");
  RE2::Options options;
  options.set_log_errors(false);
  for (const auto& [pattern, value] : config_[key].items()) {
    if (!value.is_number()) throw InputError(where, ": ", key, " of '", pattern, "' is not a number");
    const std::string which = Concat(key, " of '", pattern.substr(0, 60), "'");
    CheckSize(value, where, which);
    if (std::string_view(key) == kRankPattern) CheckRank(value, where, which);
    auto names = std::make_shared<re2::RE2>("(.*\\.)?(" + pattern + ")", options);
    if (!names->ok()) {
      throw InputError(where, ": ", key, " has the pattern '", pattern.substr(0, 60),
                       "', which is not a supported regular expression: ", names->error().substr(0, 120));
    }
    patterns.push_back({std::move(names), value.get<double>()});
  }
  return patterns;
}

double AdapterConfig::Of(const std::vector<Pattern>& patterns, const char* otherwise, const std::string& module) const {
  for (const Pattern& pattern : patterns) {
    if (Matches(module, *pattern.names)) return pattern.value;
  }
  return config_[otherwise].get<double>();
}

bool AdapterConfig::TargetsParameter(const std::string& name) const {
  if (!config_.contains("target_parameters") || !config_["target_parameters"].is_array()) return false;
  const Json& targets = config_["target_parameters"];
  return std::any_of(targets.begin(), targets.end(), [&](const Json& target) {
    const std::string text = target.is_string() ? target.get<std::string>() : "";
    return text == name || text.ends_with("." + name);
  });
}

std::string AdapterConfigText(const AdapterPlan& plan, const std::string& base) {
  const AdapterModule common = Commonest(plan);
  Json rank_pattern = Json::object(), alpha_pattern = Json::object();
  bool experts = false;
  for (const auto& [name, module] : plan.modules) {
    experts = experts || IsExpert(name);
    if (module.rank != common.rank) rank_pattern[name] = module.rank;
    if (module.alpha != common.alpha) alpha_pattern[name] = module.alpha;
  }
  Json config = {{"peft_type", "LORA"},
                 {"task_type", plan.saved.contains("score") ? "SEQ_CLS" : "CAUSAL_LM"},
                 {"base_model_name_or_path", base},
                 {"r", common.rank},
                 {"lora_alpha", common.alpha},
                 // PEFT has no dropout before the experts' matrices and refuses to load an adapter that sets it.
                 {"lora_dropout", experts ? 0.0 : plan.dropout},
                 {"use_rslora", plan.rslora},
                 {"target_modules", plan.targets},
                 {"rank_pattern", rank_pattern},
                 {"alpha_pattern", alpha_pattern},
                 {"modules_to_save", plan.saved.empty() ? Json() : Json(plan.saved)},
                 {"ensure_weight_tying", plan.tied},
                 {"bias", "none"},
                 {"fan_in_fan_out", false},
                 {"inference_mode", true},
                 {"init_lora_weights", plan.init.empty() ? Json(true) : Json(plan.init)},
                 {"use_dora", plan.dora}};
  return config.dump(2) + "\n";
}

std::string DoubledConfigText(const std::string& text, const std::string& where) {
  Json config = ParseJson(text, where);
  const double alphas = config.value("use_rslora", false) ? std::sqrt(2.0) : 2.0;  // the scale stays as it is
  config["r"] = config["r"].get<int64_t>() * 2;
  config["lora_alpha"] = config["lora_alpha"].get<double>() * alphas;
  for (Json& rank : config["rank_pattern"]) rank = rank.get<int64_t>() * 2;
  for (Json& alpha : config["alpha_pattern"]) alpha = alpha.get<double>() * alphas;
  config["init_lora_weights"] = true;
  return config.dump(2) + "\n";
}

}  // namespace trireme
