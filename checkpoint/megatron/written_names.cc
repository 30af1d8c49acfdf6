#include "checkpoint/megatron/written_names.h"

#include <optional>
#include <string_view>
#include <utility>

#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/tensors.h"

namespace trireme {
namespace {

struct Fused {
  std::string_view norm, with_norm;
};

constexpr Fused kPlainInput = {"input_layernorm.", "self_attention.linear_qkv.layer_norm_"};
constexpr Fused kMlpInput = {"pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_"};
constexpr Fused kLatent[] = {{"self_attention.q_layernorm.", "self_attention.linear_q_up_proj.layer_norm_"},
                             {"self_attention.kv_layernorm.", "self_attention.linear_kv_up_proj.layer_norm_"}};

bool Replace(std::string& rest, const Fused& fused) {
  if (!rest.starts_with(fused.norm)) return false;
  rest.replace(0, fused.norm.size(), fused.with_norm);
  return true;
}

// As HasExperts counts.
int64_t LayerNumber(const std::string& name, const WrittenModel& model) {
  std::string rest;
  if (const auto layer = NumberAfter(name, kDecoder, rest)) return *layer;
  const auto depth = NumberAfter(name, kMtp, rest);
  return depth ? model.names().layers() + *depth : -1;
}

}  // namespace

LayerName SplitLayer(const std::string& name) {
  std::string rest;
  if (!NumberAfter(name, kDecoder, rest) && !NumberAfter(name, kMtp, rest)) return {"", name};
  if (rest.starts_with(kMtpInner)) rest.erase(0, kMtpInner.size());
  return {name.substr(0, name.size() - rest.size()), rest};
}

std::string FusedName(const std::string& name, const WrittenModel& model) {
  auto [layer, rest] = SplitLayer(name);
  if (layer.empty()) return name;
  if (!model.HasExperts(LayerNumber(name, model))) Replace(rest, kMlpInput);
  if (!model.names().latent()) {
    Replace(rest, kPlainInput);
  } else {
    for (const Fused& fused : kLatent) Replace(rest, fused);
  }
  return layer + rest;
}

std::vector<std::string> DistNames(const std::string& name, const WrittenModel& model) {
  auto [layer, rest] = SplitLayer(name);
  const bool is_norm = !layer.empty() && !model.names().latent();
  if (is_norm && !Replace(rest, kPlainInput)) Replace(rest, kMlpInput);
  std::vector<std::string> names = {layer + rest};
  if (std::string fused = FusedName(name, model); fused != names[0]) names.push_back(std::move(fused));
  return names;
}

std::string RankExpertName(const std::string& name, int64_t local_number, bool transformer_engine) {
  const size_t at = name.find(kMegatronExperts);
  if (at == std::string::npos) return name;
  const size_t end = at + kMegatronExperts.size();
  const std::string before = name.substr(0, end), after = name.substr(name.find('.', end) + 1);
  const std::string number = std::to_string(local_number);
  return transformer_engine ? before + after + number : before + "local_experts." + number + "." + after;
}

std::string ModuleWithState(const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string module = name.substr(0, dot), field = name.substr(dot + 1);
  const std::string last = module.substr(module.rfind('.') + 1);
  const bool has_state = last.starts_with("linear_") || last == "eh_proj" || last == "output_layer";
  return has_state && field.starts_with("weight") ? module : "";
}

}  // namespace trireme
