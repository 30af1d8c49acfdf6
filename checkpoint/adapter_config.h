// adapter_config.json as PEFT writes and reads it. What is not supported is refused, never ignored.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/adapter.h"

namespace re2 {
class RE2;
}

namespace trireme {

inline constexpr char kAdapterConfigFile[] = "adapter_config.json";
inline constexpr char kAdapterWeightsFile[] = "adapter_model.safetensors";

// In an adapter that ties them PEFT requires both.
inline constexpr char kTiedHead[] = "lm_head.weight", kTiedEmbedding[] = "model.embed_tokens.weight";

// Mixtral's files call the mlp that has the experts block_sparse_moe; transformers 5, and PEFT with it, mlp.
inline constexpr char kMixtralBlock[] = "block_sparse_moe";
std::string NameInTransformers(std::string name);

class AdapterConfig {
 public:
  // `where` prefixes messages.
  AdapterConfig(const std::string& text, const std::string& where);

  const Json& json() const { return config_; }
  // As in PEFT, patterns match the end of a module's name, or of its weight's name; in the files' spelling or
  // in transformers'. They are regular expressions from an untrusted file: matched in linear time.
  double AlphaOf(const std::string& module) const { return Of(alphas_, "lora_alpha", module); }
  double RankOf(const std::string& module) const { return Of(ranks_, "r", module); }
  bool rslora() const { return Is("use_rslora"); }
  bool dora() const { return Is("use_dora"); }
  // PEFT's word for a start that has changed the weights beside the adapters, "pissa"; empty: they are the model's.
  std::string init() const;
  // Whether a trained embedding stays tied to the head.
  bool ties() const { return Is("ensure_weight_tying"); }
  // Whether it adapts `name`, one of the tensors that hold all experts of a layer.
  bool TargetsParameter(const std::string& name) const;

 private:
  bool Is(const char* key) const { return config_.contains(key) && config_[key] == true; }
  void Check(const std::string& where) const;
  struct Pattern {
    std::shared_ptr<const re2::RE2> names;
    double value = 0;
  };
  std::vector<Pattern> Patterns(const char* key, const std::string& where) const;
  double Of(const std::vector<Pattern>& patterns, const char* otherwise, const std::string& module) const;

  Json config_;
  std::vector<Pattern> ranks_, alphas_;
};

// The config of the plan; `base` is the base model.
std::string AdapterConfigText(const AdapterPlan& plan, const std::string& base);

// The config of adapters that started from their weights as a config of plain ones, of twice the rank and the same
// scale.
std::string DoubledConfigText(const std::string& text, const std::string& where);

}  // namespace trireme
