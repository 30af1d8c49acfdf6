#include "checkpoint/lora_adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>
#include <string_view>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kConfigFile[] = "adapter_config.json", kWeightsFile[] = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

struct Ending {
  std::string_view text;
  bool first;  // A
  bool embedding;
};
constexpr std::array<Ending, 4> kEndings = {{{".lora_A.weight", true, false},
                                             {".lora_B.weight", false, false},
                                             {".lora_embedding_A", true, true},
                                             {".lora_embedding_B", false, true}}};

std::vector<float> Wide(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(Elements(view.shape)));
  Convert(view.dtype, view.bytes.data(), DType::kFp32, values.data(), values.size());
  return values;
}

// Adds scale · B·A, row by row of B; `weight` is [outputs, inputs].
void AddProduct(const std::vector<float>& a, const std::vector<float>& b, double scale, int64_t rank,
                std::vector<float>& weight) {
  const auto inputs = static_cast<int64_t>(a.size()) / rank, outputs = static_cast<int64_t>(b.size()) / rank;
  std::vector<float> sum(static_cast<size_t>(inputs));
  for (int64_t out = 0; out < outputs; ++out) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t r = 0; r < rank; ++r) {
      const float factor = b[static_cast<size_t>(out * rank + r)];
      const float* row = a.data() + r * inputs;
      for (int64_t in = 0; in < inputs; ++in) sum[static_cast<size_t>(in)] += factor * row[in];
    }
    float* target = weight.data() + out * inputs;
    for (int64_t in = 0; in < inputs; ++in)
      target[in] += static_cast<float>(scale) * sum[static_cast<size_t>(in)];
  }
}

std::vector<float> Transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> turned(values.size());
  CopyBox({rows, columns}, {DType::kFp32, values.data(), {columns, 1}},
          {DType::kFp32, turned.data(), {1, rows}});
  return turned;
}

}  // namespace

LoraAdapter::LoraAdapter(const std::filesystem::path& directory, const HfDirectory& base)
    : directory_(directory),
      config_(ReadJsonFile((directory / kConfigFile).string())),
      file_(directory / kWeightsFile) {
  ReadConfig();
  for (const auto& [name, view] : file_.tensors()) Sort(name, view);
  if (pairs_.empty() && replaced_.empty()) throw InputError(file_.path().string(), ": has no tensors");
  CheckPairs(base);
}

std::string LoraAdapter::Where(const std::string& name) const {
  return file_.path().string() + ": '" + name + "'";
}

void LoraAdapter::ReadConfig() {
  const std::string where = (directory_ / kConfigFile).string();
  if (!config_.is_object()) throw InputError(where, ": is not a JSON object");
  const auto is = [&](const char* key, const Json& value) {
    return config_.contains(key) && config_[key] == value;
  };
  if (!is("peft_type", "LORA")) {
    throw InputError(where, ": peft_type is ",
                     config_.contains("peft_type") ? config_["peft_type"].dump() : "missing",
                     "; only LORA adapters are read");
  }
  for (const char* key : {"use_dora", "lora_bias", "fan_in_fan_out"}) {
    if (is(key, true)) throw InputError(where, ": ", key, " is true, which is not supported");
  }
  if (!config_.contains("lora_alpha") || !config_["lora_alpha"].is_number()) {
    throw InputError(where, ": lora_alpha is missing");
  }
}

void LoraAdapter::Sort(const std::string& name, const TensorView& view) {
  if (!name.starts_with(kPrefix)) throw InputError(Where(name), " does not begin with ", kPrefix);
  const std::string plain = name.substr(kPrefix.size());
  if (!CanConvert(view.dtype, DType::kFp32)) throw InputError(Where(name), " is in ", Name(view.dtype));
  for (const Ending& ending : kEndings) {
    if (!plain.ends_with(ending.text)) continue;
    LoraPair& pair = pairs_[plain.substr(0, plain.size() - ending.text.size()) + ".weight"];
    (ending.first ? pair.a : pair.b) = &view;
    pair.embedding = ending.embedding;
    return;
  }
  if (plain.find("lora_") != std::string::npos || plain.find("token_adapter") != std::string::npos) {
    throw InputError(Where(name),
                     " is of a kind that is not supported; only A and B of linear and embedding weights");
  }
  // An adapted embedding comes with its own weight as PEFT wraps it.
  constexpr std::string_view kWrapped = ".base_layer.weight";
  const bool wrapped = plain.ends_with(kWrapped);
  replaced_[wrapped ? plain.substr(0, plain.size() - kWrapped.size()) + ".weight" : plain] = &view;
}

// alpha_pattern's keys are matched against the end of the module's name, as PEFT does.
double LoraAdapter::ScaleOf(const std::string& module, int64_t rank) const {
  double alpha = config_["lora_alpha"].get<double>();
  if (config_.contains("alpha_pattern") && config_["alpha_pattern"].is_object()) {
    for (const auto& [pattern, value] : config_["alpha_pattern"].items()) {
      if (!value.is_number()) continue;
      if (std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")"))) {
        alpha = value.get<double>();
        break;
      }
    }
  }
  const bool root = config_.contains("use_rslora") && config_["use_rslora"] == true;
  return alpha / (root ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
}

void LoraAdapter::CheckPairs(const HfDirectory& base) const {
  for (const auto& [name, view] : replaced_) {
    if (!base.Has(name)) {
      throw InputError(Where(name), " replaces a tensor that ", base.path().string(), " does not have");
    }
    if (base.Describe(name).shape == view->shape) continue;
    throw InputError(Where(name), " is ", ShapeText(view->shape), "; ", base.path().string(), " has ",
                     ShapeText(base.Describe(name).shape), "; is the adapter for another model?");
  }
  for (auto& [name, pair] : pairs_) {
    if (pair.a == nullptr || pair.b == nullptr) throw InputError(Where(name), ": A or B of it is missing");
    if (!base.Has(name)) {
      throw InputError(Where(name), ": ", base.path().string(),
                       " has no such weight; is the adapter for another model?");
    }
    const Shape shape = base.Describe(name).shape;
    const bool matrices = pair.a->shape.size() == 2 && pair.b->shape.size() == 2 && shape.size() == 2;
    const Shape wanted = !matrices        ? Shape{}
                         : pair.embedding ? Shape{pair.a->shape[1], pair.b->shape[0]}
                                          : Shape{pair.b->shape[0], pair.a->shape[1]};
    if (!matrices || pair.a->shape[0] != pair.b->shape[1] || wanted != shape) {
      throw InputError(Where(name), ": A ", ShapeText(pair.a->shape), " and B ", ShapeText(pair.b->shape),
                       " do not fit the weight ", ShapeText(shape), "; is the adapter for another model?");
    }
  }
}

void LoraAdapter::Apply(const std::string& name, std::vector<float>& values) const {
  if (const auto found = replaced_.find(name); found != replaced_.end()) values = Wide(*found->second);
  const auto found = pairs_.find(name);
  if (found == pairs_.end()) return;
  const LoraPair& pair = found->second;
  const int64_t rank = pair.a->shape[0], inputs = pair.a->shape[1], outputs = pair.b->shape[0];
  const double scale = ScaleOf(name.substr(0, name.rfind('.')), rank);
  if (!pair.embedding) return AddProduct(Wide(*pair.a), Wide(*pair.b), scale, rank, values);
  // (B·A) transposed is Aᵀ·Bᵀ.
  AddProduct(Transposed(Wide(*pair.b), outputs, rank), Transposed(Wide(*pair.a), rank, inputs), scale, rank,
             values);
}

}  // namespace trireme
