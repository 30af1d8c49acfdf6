#include "models/hf_config.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "models/config_keys.h"

namespace trireme {
namespace {

// Others would give NaN, or no rotation at all, in whichever object they stand.
constexpr std::string_view kPositive[] = {"rms_norm_eps",         "layer_norm_eps", "rope_theta",
                                          "rope_local_base_freq", "factor",         "query_pre_attn_scalar",
                                          "logits_scaling"};

}  // namespace

HfConfig HfConfig::Read(const std::filesystem::path& directory) {
  const std::string path = (directory / "config.json").string();
  Json json = ReadJsonFile(path);
  if (!json.is_object()) throw InputError(path, ": is not a JSON object");
  return {std::move(json), path};
}

const Json* HfConfig::Find(const char* key) const {
  looked_up_.emplace(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void HfConfig::Refuse(const std::string& key, const std::string& why) const {
  throw InputError(source_, ": ", key, " ", why);
}

HfConfig HfConfig::Within(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_object()) Refuse(key, "is not an object");
  return {*value, source_ + ": " + key};
}

void HfConfig::RefuseUnread() const {
  for (const auto& [key, value] : json_.items()) {
    if (value.is_null() || looked_up_.contains(key) || IsWithoutEffect(key)) continue;
    Refuse(key,
           Concat("is ", value.dump().substr(0, 60), ", and this key is not known here: it may change what the model ",
                  "computes. If it does not, rename it to _", key, ", which is ignored"));
  }
}

int64_t HfConfig::Size(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr) Refuse(key, "is missing");
  if (!value->is_number_integer() || value->get<int64_t>() < 1)
    Refuse(key, "is " + value->dump() + "; wanted a positive integer");
  return value->get<int64_t>();
}

int64_t HfConfig::Size(const char* key, int64_t fallback) const { return Find(key) == nullptr ? fallback : Size(key); }

std::optional<int64_t> HfConfig::WholeNumber(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  // Beyond int64: clamped to the maximum, so that a limit catches it.
  const bool wraps = value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX;
  return wraps ? INT64_MAX : value->get<int64_t>();
}

double HfConfig::Number(const char* key, double fallback) const {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) Refuse(key, "is " + value->dump() + "; wanted a number");
  const auto number = value->get<double>();
  if (number <= 0 && std::ranges::find(kPositive, std::string_view(key)) != std::end(kPositive)) {
    Refuse(key, "is " + value->dump() + "; wanted a number above 0");
  }
  return number;
}

bool HfConfig::Flag(const char* key, bool fallback) const {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) Refuse(key, "is " + value->dump() + "; wanted true or false");
  return value->get<bool>();
}

std::string HfConfig::Text(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_string()) Refuse(key, value == nullptr ? "is missing" : "is not a string");
  return value->get<std::string>();
}

std::string HfConfig::Architecture() const {
  const Json* value = Find("architectures");
  if (value == nullptr || !value->is_array() || value->empty() || !value->front().is_string()) return "";
  return value->front().get<std::string>();
}

int64_t HfConfig::Labels() const {
  if (const auto labels = WholeNumber("num_labels")) return *labels;
  const Json* names = Find("id2label");
  return names != nullptr && names->is_object() ? static_cast<int64_t>(names->size()) : 2;
}

std::vector<int64_t> HfConfig::Integers(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  const auto is_integer = [](const Json& item) { return item.is_number_integer(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_integer)) {
    Refuse(key, "is " + value->dump() + "; wanted a list of integers");
  }
  return value->get<std::vector<int64_t>>();
}

std::vector<double> HfConfig::Numbers(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  const auto is_number = [](const Json& item) { return item.is_number(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_number)) {
    Refuse(key, "is " + value->dump().substr(0, 60) + "; wanted a list of numbers");
  }
  return value->get<std::vector<double>>();
}

std::vector<std::string> HfConfig::Texts(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_text)) {
    Refuse(key, "is " + value->dump() + "; wanted a list of strings");
  }
  return value->get<std::vector<std::string>>();
}

void HfConfig::Only(const char* key, const Json& wanted) const {
  const Json* value = Find(key);
  if (value != nullptr && *value != wanted) {
    Refuse(key, "is " + value->dump() + "; only " + wanted.dump() + " is supported");
  }
}

DType HfConfig::WeightType() const {
  const char* key = Find("dtype") != nullptr ? "dtype" : "torch_dtype";
  if (Find(key) == nullptr) return DType::kFp32;
  const std::string name = Text(key);
  if (name == "float32") return DType::kFp32;
  if (name == "bfloat16") return DType::kBf16;
  if (name == "float16") return DType::kFp16;
  Refuse(key, "is '" + name + "'; wanted float32, bfloat16 or float16");
}

}  // namespace trireme
