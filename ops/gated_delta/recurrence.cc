#include "ops/gated_delta/recurrence.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace trireme {
namespace {

at::Tensor UnitLength(const at::Tensor& x) {
  constexpr double kEps = 1e-6;  // transformers' l2norm
  return x * (x.square().sum(-1, /*keepdim=*/true) + kEps).rsqrt();
}

struct RecurrentStep {
  int64_t token = 0;
  bool writes = true;  // false: of a prefix
};

// The tokens of run `place` of the order, from its chunks.
std::vector<RecurrentStep> RecurrentStepsOf(const DeltaChunks& chunks, int64_t place) {
  std::vector<RecurrentStep> steps;
  int64_t first = 0;
  for (const int64_t active : chunks.active) {
    for (int64_t i = 0; place < active && i < chunks.size; ++i) {
      const auto slot = static_cast<size_t>((first + place) * chunks.size + i);
      if (chunks.reads[slot] == chunks.tokens) continue;
      steps.push_back({.token = chunks.reads[slot], .writes = chunks.writes[slot] != chunks.tokens});
    }
    first += active;
  }
  return steps;
}

}  // namespace

at::Tensor RecurrentDelta(const DeltaInputs& inputs, const DeltaChunks& chunks, const at::Tensor& states) {
  const int64_t heads = inputs.value.size(1), group = heads / inputs.key.size(1), key_dim = inputs.key.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(key_dim));
  const at::Tensor query = UnitLength(inputs.query.to(at::kFloat)).repeat_interleave(group, 1) * scale;
  const at::Tensor key = UnitLength(inputs.key.to(at::kFloat)).repeat_interleave(group, 1);
  const at::Tensor value = inputs.value.to(at::kFloat), decay = inputs.log_decay.exp();
  std::vector<at::Tensor> outputs(static_cast<size_t>(chunks.tokens),
                                  at::zeros({heads, value.size(2)}, value.options()));
  for (size_t place = 0; place < chunks.order.size(); ++place) {
    at::Tensor state = states.defined() ? states[chunks.order[place]].clone()
                                        : at::zeros({heads, key_dim, value.size(2)}, value.options());
    for (const auto& [token, writes] : RecurrentStepsOf(chunks, static_cast<int64_t>(place))) {
      state = state * decay[token].view({-1, 1, 1});
      const at::Tensor known = (state * key[token].unsqueeze(-1)).sum(-2);
      const at::Tensor change = (value[token] - known) * inputs.beta[token].unsqueeze(-1);
      state = state + key[token].unsqueeze(-1) * change.unsqueeze(-2);
      if (writes) outputs[static_cast<size_t>(token)] = (state * query[token].unsqueeze(-1)).sum(-2);
    }
    if (states.defined()) states[chunks.order[place]].copy_(state);
  }
  return at::stack(outputs).to(inputs.value.scalar_type());
}

}  // namespace trireme
