#include "models/routed_experts.h"

#include "core/base/error.h"

namespace trireme {

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
  config.Only("topk_method", "noaux_tc");
  RouterRule rule = RoutedRule(config);
  rule.scores = RouterRule::Scores::kSigmoid;
  rule.group_score = RouterRule::GroupScore::kSumOfTwo;
  rule.correction_bias = true;
  rule.normalise = config.Flag("norm_topk_prob", true);
  rule.normalise_eps = 1e-20;
  LimitToGroups(config, rule);
  return rule;
}

ExpertsSpec RoutedExperts(const HfConfig& config, const RouterRule& rule, int64_t hidden) {
  ExpertsSpec experts{.router = rule, .hidden = hidden};
  experts.ffn = config.Size("moe_intermediate_size");
  experts.shared_ffn = config.Has("n_shared_experts") ? config.Size("n_shared_experts") * experts.ffn : 0;
  return experts;
}

LayerNames SharedExpertsNames() {
  return {{"shared.gate.weight", "mlp.shared_experts.gate_proj.weight"},
          {"shared.up.weight", "mlp.shared_experts.up_proj.weight"},
          {"shared.down.weight", "mlp.shared_experts.down_proj.weight"}};
}

}  // namespace trireme
