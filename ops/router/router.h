// A router's choice: from tokens to their experts and weights, in fp32 whatever the compute dtype.
// ops/moe_permute/moe_permute.h and parallel/experts dispatch the tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/linear/linear.h"
#include "ops/router/router_rule.h"

namespace trireme {

// weight: [experts, hidden], bias: [experts] or nullptr; both outlive the backward pass. Returns [tokens, experts]
// fp32.
at::Tensor RouterLogits(const LinearInput& x, const Weight& weight, const Weight* bias = nullptr);

struct Routing {
  at::Tensor experts;  // [tokens, top_k] int64
  at::Tensor weights;  // [tokens, top_k] fp32; its gradient reaches the logits
  at::Tensor scores;   // [tokens, experts] fp32, before groups and bias; also with a gradient
};

// bias: [experts] fp32 if the rule has one.
Routing ChooseExperts(const at::Tensor& logits, const RouterRule& rule, const at::Tensor& bias = {});

}  // namespace trireme
