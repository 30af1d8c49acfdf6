#include "checkpoint/adapter_fusion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <re2/re2.h>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {
namespace {

const ExpertNames kNamings[] = {{}, {.block = kMixtralBlock, .gate = "w1", .up = "w3", .down = "w2"}};

// Projections of one layer's experts, keyed by their last name component: the number of experts, and each
// one's rank.
struct Projection {
  std::string stem;  // "model.layers.0.mlp.experts"
  std::string word;
  int64_t experts = 0;
  AdapterModule module;
  std::string OfExpert(int64_t expert) const { return Concat(stem, ".", expert, ".", word); }
};
using Layer = std::map<std::string, Projection>;  // by word

std::map<std::string, Layer> ExpertLayers(const AdapterPlan& plan) {
  static const RE2 of_expert(R"((.*\.experts)\.\d+\.(\w+))");
  std::map<std::string, Layer> layers;
  for (const auto& [name, module] : plan.modules) {
    std::string stem, word;
    if (!RE2::FullMatch(name, of_expert, &stem, &word)) continue;
    Projection& projection = layers[stem][word];
    projection = {stem, word, projection.experts + 1, module};
  }
  return layers;
}

std::vector<float> Values(const AdapterDirectory& adapter, const std::string& name) {
  const TensorView& view = adapter.Find(name);
  std::vector<float> values(static_cast<size_t>(Elements(view.shape)));
  Convert(view.dtype, view.bytes.data(), DType::kFp32, values.data(), values.size());
  return values;
}

// Writes one layer's adapter, block by block. Blocks without a projection stay zero.
class Fusion {
 public:
  Fusion(const AdapterDirectory& adapter, const AdapterPlan& plan, const std::vector<std::string>& words,
         const Layer& layer)
      : adapter_(adapter), plan_(plan) {
    for (const std::string& word : words) {
      const auto found = layer.find(word);
      blocks_.push_back(found == layer.end() ? nullptr : &found->second);
      if (blocks_.back() != nullptr && first_ == nullptr) first_ = blocks_.back();
    }
  }
  bool empty() const { return first_ == nullptr; }

  FusedModule Fuse(const std::string& parameter, bool inner) {
    const std::string stem = NameInTransformers(first_->stem) + (inner ? ".base_layer" : "");
    fused_ = {.parameter = Concat(NameInTransformers(first_->stem), ".", parameter),
              .a_name = stem + ".lora_A.weight",
              .b_name = stem + ".lora_B.weight",
              .module = CommonModule()};
    const Shape a = adapter_.Describe(first_->OfExpert(0) + ".lora_A.weight").shape;
    const Shape b = adapter_.Describe(first_->OfExpert(0) + ".lora_B.weight").shape;
    const auto blocks = static_cast<int64_t>(blocks_.size());
    fused_.a_shape = {first_->experts * fused_.module.rank, a.at(1)};
    fused_.b_shape = {blocks * b.at(0), fused_.module.rank * first_->experts};
    fused_.a.resize(static_cast<size_t>(Elements(fused_.a_shape)));
    fused_.b.resize(static_cast<size_t>(Elements(fused_.b_shape)));
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t expert = 0; expert < first_->experts; ++expert) Put(block, expert);
    }
    return std::move(fused_);
  }

 private:
  // For each block as many ranks as the largest has; the scale of the first.
  AdapterModule CommonModule() const {
    int64_t rank = 0;
    for (const Projection* block : blocks_) rank = std::max(rank, block == nullptr ? 0 : block->module.rank);
    rank *= static_cast<int64_t>(blocks_.size());
    const double ranks = plan_.rslora ? std::sqrt(rank) : static_cast<double>(rank);
    // Rounded to six decimals: 16 stays 16 after a square root.
    return {.rank = rank, .alpha = std::round(plan_.ScaleOf(first_->module) * ranks * 1e6) / 1e6};
  }

  void Put(int64_t block, int64_t expert) {
    const Projection* from = blocks_[static_cast<size_t>(block)];
    if (from == nullptr) return;
    const std::string name = from->OfExpert(expert);
    const std::vector<float> a = Values(adapter_, name + ".lora_A.weight");
    const std::vector<float> b = Values(adapter_, name + ".lora_B.weight");
    const int64_t rank = from->module.rank, in = fused_.a_shape[1], columns = fused_.b_shape[1];
    const auto blocks = static_cast<int64_t>(blocks_.size());
    const int64_t rows = fused_.b_shape[0] / blocks, first_rank = block * (fused_.module.rank / blocks);
    std::copy(a.begin(), a.end(), fused_.a.begin() + (expert * fused_.module.rank + first_rank) * in);
    const auto scale = static_cast<float>(plan_.ScaleOf(from->module) / plan_.ScaleOf(first_->module));
    for (int64_t row = 0; row < rows; ++row) {
      float* to = fused_.b.data() + (block * rows + row) * columns + expert;
      for (int64_t i = 0; i < rank; ++i) to[(first_rank + i) * from->experts] = b[row * rank + i] * scale;
    }
  }

  const AdapterDirectory& adapter_;
  const AdapterPlan& plan_;
  std::vector<const Projection*> blocks_;
  const Projection* first_ = nullptr;
  FusedModule fused_;
};

std::vector<FusedModule> FuseLayers(const AdapterDirectory& adapter, const AdapterPlan& plan) {
  std::vector<FusedModule> adapters;
  for (const auto& [stem, layer] : ExpertLayers(plan)) {
    for (const ExpertNames& names : kNamings) {
      Fusion gate_up(adapter, plan, {names.gate, names.up}, layer), down(adapter, plan, {names.down}, layer);
      // PEFT wraps the first of a module's parameters first.
      if (!gate_up.empty()) adapters.push_back(gate_up.Fuse("gate_up_proj", /*inner=*/!down.empty()));
      if (!down.empty()) adapters.push_back(down.Fuse("down_proj", /*inner=*/false));
    }
  }
  return adapters;
}

std::string LastWord(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// Names that PEFT takes for experts' anywhere in a model that has experts: such a module is listed by its
// weight, like the experts' tensors.
bool TakenForExperts(const std::string& name) {
  static const std::set<std::string> words = {"gate", "gate_proj", "up_proj", "down_proj"};
  return words.contains(LastWord(name));
}

// "mlp.experts.gate_up_proj", which patterns match in every layer.
std::string InEveryLayer(const std::string& parameter) { return parameter.substr(parameter.find("mlp.")); }

// Modules whose rank or alpha differs from most.
class Patterns {
 public:
  explicit Patterns(Json& config) : config_(config) {
    config["rank_pattern"] = config["alpha_pattern"] = Json::object();
  }
  void Name(const std::string& pattern, const AdapterModule& module) {
    if (module.rank != config_["r"]) config_["rank_pattern"][pattern] = module.rank;
    if (module.alpha != config_["lora_alpha"]) config_["alpha_pattern"][pattern] = module.alpha;
  }

 private:
  Json& config_;
};

void NameExperts(const std::vector<FusedModule>& adapters, std::set<std::string>& parameters, Patterns& patterns) {
  std::map<std::string, std::set<std::pair<int64_t, double>>> kinds;
  for (const FusedModule& adapter : adapters) {
    parameters.insert(adapter.parameter);
    kinds[InEveryLayer(adapter.parameter)].emplace(adapter.module.rank, adapter.module.alpha);
  }
  for (const FusedModule& adapter : adapters) {
    const std::string each = InEveryLayer(adapter.parameter);
    patterns.Name(kinds[each].size() == 1 ? each : adapter.parameter, adapter.module);
  }
}

std::string FusedConfig(const Json& one_by_one, const AdapterPlan& plan, const std::vector<FusedModule>& adapters) {
  Json config = one_by_one;
  Patterns patterns(config);
  std::set<std::string> modules, parameters;
  const auto short_names = one_by_one.value("target_modules", std::set<std::string>());
  for (const auto& [name, module] : plan.modules) {
    if (name.find(".experts.") != std::string::npos) continue;
    const std::string own = NameInTransformers(name), word = LastWord(name);
    if (TakenForExperts(name)) {
      parameters.insert(own + ".weight");
      patterns.Name(own + ".weight", module);
    } else {
      modules.insert(short_names.contains(word) ? word : own);
      patterns.Name(own, module);
    }
  }
  NameExperts(adapters, parameters, patterns);
  config["target_modules"] = modules;
  config["target_parameters"] = parameters;
  config["lora_dropout"] = 0.0;  // PEFT has none before parameters, and refuses an adapter that sets it
  return config.dump(2) + "\n";
}

}  // namespace

FusedAdapter FuseExperts(const AdapterDirectory& adapter) {
  const AdapterPlan plan = adapter.Plan();
  FusedAdapter fused{.adapters = FuseLayers(adapter, plan), .config = {}};
  fused.config = FusedConfig(adapter.config().json(), plan, fused.adapters);
  return fused;
}

}  // namespace trireme
