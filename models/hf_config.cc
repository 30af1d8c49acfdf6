#include "models/hf_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "models/config_keys.h"

namespace trireme {
namespace {

double YarnMagnitude(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

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
    Refuse(key, Concat("is ", value.dump().substr(0, 60), ", and this key is not known here: it may change what the model ",
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

int64_t HfConfig::Size(const char* key, int64_t fallback) const {
  return Find(key) == nullptr ? fallback : Size(key);
}

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
  return value->get<double>();
}

bool HfConfig::Flag(const char* key, bool fallback) const {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) Refuse(key, "is " + value->dump() + "; wanted true or false");
  return value->get<bool>();
}

std::string HfConfig::Text(const char* key) const {
  const Json* value = Find(key);
  if (value == nullptr || !value->is_string())
    Refuse(key, value == nullptr ? "is missing" : "is not a string");
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

void HfConfig::ReadYarn(RopeSpec& rope) const {
  rope.scaling = RopeSpec::Scaling::kYarn;
  rope.original_positions = Size("original_max_position_embeddings");
  rope.beta_fast = Number("beta_fast", 32);
  rope.beta_slow = Number("beta_slow", 1);
  rope.truncate = Flag("truncate", true);
  const double mscale = Number("mscale", 0), all_dim = Number("mscale_all_dim", 0);
  const double magnitude = mscale != 0 && all_dim != 0
                               ? YarnMagnitude(rope.factor, mscale) / YarnMagnitude(rope.factor, all_dim)
                               : YarnMagnitude(rope.factor, 1);
  rope.magnitude = Number("attention_factor", magnitude);
}

double HfConfig::YarnScoreScale() const {
  const char* key = Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!Has(key)) return 1;
  const HfConfig scaling(*Find(key), source_ + ": " + key);
  const double all_dim = scaling.Number("mscale_all_dim", 0);
  const double magnitude = all_dim == 0 ? 1 : YarnMagnitude(scaling.Number("factor", 1), all_dim);
  return magnitude * magnitude;
}

double HfConfig::RotaryFactor(double fallback) const {
  constexpr char kFactor[] = "partial_rotary_factor";
  double factor = Number(kFactor, fallback);
  if (Has("rope_parameters")) factor = Within("rope_parameters").Number(kFactor, factor);
  if (factor <= 0 || factor > 1) Refuse(kFactor, Concat("is ", factor, "; wanted above 0 and at most 1"));
  return factor;
}

RopeSpec HfConfig::Rope(int64_t rotary_dim, const RopeTraits& traits) const {
  RopeSpec rope{.theta = Number("rope_theta", traits.theta), .rotary_dim = rotary_dim};
  const char* key = Find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  if (Find(key) == nullptr) return rope;
  return Within(key).RopeHere(rope, traits);
}

RopeSpec HfConfig::RopeHere(RopeSpec rope, const RopeTraits& traits) const {
  const HfConfig& scaling = *this;
  scaling.Only("partial_rotary_factor", traits.factor);
  rope.theta = scaling.Number("rope_theta", rope.theta);
  const char* kind_key = scaling.Find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string kind = scaling.Find(kind_key) == nullptr ? "default" : scaling.Text(kind_key);
  if (kind == "default") {
    scaling.RefuseUnread();
    return rope;
  }
  rope.factor = scaling.Number("factor", 1.0);
  if (kind == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
  } else if (kind == "llama3") {
    rope.scaling = RopeSpec::Scaling::kLlama3;
    rope.low_freq_factor = scaling.Number("low_freq_factor", 1.0);
    rope.high_freq_factor = scaling.Number("high_freq_factor", 4.0);
    rope.original_positions = scaling.Size("original_max_position_embeddings");
  } else if (kind == "yarn") {
    scaling.ReadYarn(rope);
  } else if (kind == "dynamic" && traits.ntk_alpha && scaling.Number("alpha", 0) > 0) {
    const auto dim = static_cast<double>(rope.rotary_dim);
    rope.theta *= std::pow(scaling.Number("alpha", 1), dim / (dim - 2));
    rope.factor = 1;
    scaling.Unused({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"});
  } else {
    throw InputError(source_, " has the type '", kind, "'; wanted default, linear, llama3 or yarn");
  }
  scaling.RefuseUnread();
  return rope;
}

}  // namespace trireme
