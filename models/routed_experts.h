// Routed and shared experts under DeepSeek's keys, which other families have taken over: n_routed_experts, n_group,
// topk_group, routed_scaling_factor, moe_intermediate_size, n_shared_experts.
#pragma once

#include "models/decoder.h"

namespace trireme {

// Sizes and scale; a softmax without groups.
RouterRule RoutedRule(const HfConfig& config);

// Experts are chosen from topk_group of n_group groups.
void LimitToGroups(const HfConfig& config, RouterRule& rule);

// DeepSeek-V3's: sigmoids with a correction bias, groups by their best two experts.
RouterRule CorrectedRouter(const HfConfig& config);
// The same where scoring_func is another's to read.
RouterRule SigmoidRouter(const HfConfig& config);

// For each layer whether it has experts: mlp_layer_types, or all but the first `dense`.
std::vector<bool> LayersWithExperts(const HfConfig& config, int64_t dense);

ExpertsSpec RoutedExperts(const HfConfig& config, const RouterRule& rule, int64_t hidden);

// The same router and experts under num_experts and num_shared_experts; weights are renormalised if the config says so.
ExpertsSpec NumberedExperts(const HfConfig& config, double unsaid_scale);

// How these families' files name the shared experts' matrices.
LayerNames SharedExpertsNames();
// And the router's correction bias.
LayerNames CorrectedNames();

}  // namespace trireme
