#include "models/routed_experts.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

// Sigmoids with a correction bias, groups by their best two experts.
void Correct(const HfConfig& config, RouterRule& rule) {
  rule.scores = RouterRule::Scores::kSigmoid;
  rule.group_score = RouterRule::GroupScore::kSumOfTwo;
  rule.correction_bias = true;
  rule.normalise = config.Flag("norm_topk_prob", true);
  rule.normalise_eps = 1e-20;
  LimitToGroups(config, rule);
}

}  // namespace

RouterRule RoutedRule(const HfConfig& config) {
  RouterRule rule{.experts = config.Size("n_routed_experts"), .top_k = config.Size("num_experts_per_tok")};
  rule.scale = config.Number("routed_scaling_factor", 1.0);
  return rule;
}

void LimitToGroups(const HfConfig& config, RouterRule& rule) {
  rule.groups = config.Size("n_group", 1);
  rule.top_groups = config.Size("topk_group", 1);
  const int64_t eligible = rule.experts / rule.groups * rule.top_groups;
  if (rule.experts % rule.groups != 0 || rule.top_groups > rule.groups || rule.top_k > eligible) {
    throw InputError(config.source(), ": ", rule.top_k, " of ", rule.experts,
                     " experts cannot be chosen from topk_group = ", rule.top_groups, " of n_group = ", rule.groups,
                     "; wanted a number of groups that divides the experts, and enough experts in them");
  }
}

RouterRule CorrectedRouter(const HfConfig& config) {
  config.Only("scoring_func", "sigmoid");
  return SigmoidRouter(config);
}

RouterRule SigmoidRouter(const HfConfig& config) {
  config.Only("topk_method", "noaux_tc");
  RouterRule rule = RoutedRule(config);
  Correct(config, rule);
  return rule;
}

ExpertsSpec RoutedExperts(const HfConfig& config, const RouterRule& rule, int64_t hidden) {
  ExpertsSpec experts{.router = rule, .hidden = hidden};
  experts.ffn = config.Size("moe_intermediate_size");
  experts.shared_ffn = config.Has("n_shared_experts") ? config.Size("n_shared_experts") * experts.ffn : 0;
  return experts;
}

ExpertsSpec NumberedExperts(const HfConfig& config, double unsaid_scale) {
  ExpertsSpec experts = CommonExperts(config, config.Size("hidden_size"));
  experts.router.scale = config.Number("routed_scaling_factor", unsaid_scale);
  Correct(config, experts.router);
  experts.ffn = config.Size("moe_intermediate_size");
  experts.shared_ffn = config.WholeNumber("num_shared_experts").value_or(0) * experts.ffn;
  return experts;
}

std::vector<bool> LayersWithExperts(const HfConfig& config, int64_t dense) {
  const auto layers = static_cast<size_t>(config.Size("num_hidden_layers"));
  const std::vector<std::string> kinds = config.Texts("mlp_layer_types");
  if (!kinds.empty() && kinds.size() != layers) {
    throw InputError(config.source(), ": mlp_layer_types has ", kinds.size(), " entries; num_hidden_layers is ",
                     layers);
  }
  std::vector<bool> sparse(layers, true);
  std::fill_n(sparse.begin(), std::clamp<int64_t>(dense, 0, std::ssize(sparse)), false);
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    if (kinds[layer] != "dense" && kinds[layer] != "sparse") {
      throw InputError(config.source(), ": mlp_layer_types has '", kinds[layer], "'; wanted dense or sparse");
    }
    sparse[layer] = kinds[layer] == "sparse";
  }
  return sparse;
}

LayerNames CorrectedNames() {
  LayerNames names = SharedExpertsNames();
  names.emplace_back("router.bias", "mlp.gate.e_score_correction_bias");
  return names;
}

LayerNames SharedExpertsNames() {
  return {{"shared.gate.weight", "mlp.shared_experts.gate_proj.weight"},
          {"shared.up.weight", "mlp.shared_experts.up_proj.weight"},
          {"shared.down.weight", "mlp.shared_experts.down_proj.weight"}};
}

}  // namespace trireme
