#include "parallel/layers/head.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "parallel/layers/embedding.h"
#include "parallel/layers/unit_rows.h"
#include "parallel/layers/wide_norm.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A zero whose backward pass returns a gradient that is already known; the incoming gradient is 1.
struct KnownGradient : torch::autograd::Function<KnownGradient> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& gradient) {
    context->save_for_backward({gradient});
    return at::zeros({}, hidden.options().dtype(at::kFloat));
  }
  static variable_list backward(AutogradContext* context, const variable_list& /*gradients*/) {
    return {context->get_saved_variables()[0], at::Tensor()};
  }
};

std::vector<at::Tensor> Detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> detached;
  for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
  return detached;
}

std::string WeightName(const Layer& layer) {
  const auto& spec = std::get<HeadSpec>(layer.spec);
  // A model of vectors has no such weight: its objective takes hidden states alone.
  if (spec.scores && spec.vocabulary == 0) return layer.name + ".norm.weight";
  if (spec.tied) return kEmbeddingWeight;
  return layer.name + (spec.scores ? ".score.weight" : ".logits.weight");
}

}  // namespace

HeadLayer::HeadLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel)
    : spec_(std::get<HeadSpec>(layer.spec)),
      parallel_(parallel.tensor),
      context_(parallel.context),
      norm_(weights.FindOrNull(layer.name + ".norm.weight")),
      weight_(weights.Find(WeightName(layer))),
      value_(weights.FindOrNull(layer.name + ".value.weight")),
      value_bias_(weights.FindOrNull(layer.name + ".value.bias")) {}

at::Tensor HeadLayer::Forward(const at::Tensor& x, PassContext& pass) const {
  TRIREME_CHECK(pass.options.objective != nullptr && pass.output != nullptr) << "the head has no objective";
  TRIREME_CHECK(pass.options.objective->needs_scores() == spec_.scores)
      << "the objective needs " << (spec_.scores ? "logits; the model has a value head" : "a value head");
  const std::vector<at::Tensor> hidden = HiddenStates(x, pass);
  if (pass.options.wants.hidden) pass.output->hidden = hidden[0].detach();
  std::vector<at::Tensor> gradients;
  {
    const at::NoGradGuard no_graph;
    std::optional<UnitRows> scaled;
    if (spec_.normalised) scaled.emplace(weight_, pass.options.differentiate);
    gradients = pass.options.objective->Run(StatesOf(hidden, scaled ? scaled->unit() : weight_), pass);
    if (scaled) scaled->AddGradient();
  }
  if (!pass.options.differentiate) return {};
  TRIREME_CHECK(gradients.size() == hidden.size())
      << "the objective has " << gradients.size() << " gradients for " << hidden.size() << " hidden states";
  std::vector<at::Tensor> values;
  for (size_t i = 0; i < hidden.size(); ++i) values.push_back(KnownGradient::apply(hidden[i], gradients[i]));
  return at::stack(values);
}

std::vector<at::Tensor> HeadLayer::HiddenStates(const at::Tensor& x, const PassContext& pass) const {
  // For a few selected tokens the norm is cheaper after the selection.
  const at::Tensor chosen = pass.options.objective->Select(pass);
  if (chosen.defined()) return {Normalised(GatherToTensorRegion(x, parallel_).index_select(0, chosen))};
  std::vector<at::Tensor> states;
  for (const at::Tensor& depth : x.chunk(1 + pass.mtp_depths())) {
    states.push_back(GatherToTensorRegion(Normalised(depth), parallel_));
  }
  return states;
}

at::Tensor HeadLayer::Normalised(const at::Tensor& x) const {
  const at::Tensor normalised = norm_ == nullptr ? x : OffsetRmsNorm(x, *norm_, spec_.norm_eps, spec_.norm_offset);
  return spec_.logit_scale == 1 ? normalised : normalised * spec_.logit_scale;
}

HeadStates HeadLayer::StatesOf(const std::vector<at::Tensor>& hidden, const Weight& weight) const {
  const int64_t rows = weight_.value.size(0), first = spec_.scores ? 0 : parallel_.rank() * rows;
  return {.hidden = Detached(hidden),
          .weight = weight,
          .columns = {first, std::clamp<int64_t>(spec_.vocabulary - first, 0, rows)},
          .vocabulary = spec_.vocabulary,
          .mtp_weight = spec_.mtp_weight,
          .soft_cap = spec_.soft_cap,
          .logit_scale = spec_.logit_scale,
          .value = value_,
          .value_bias = value_bias_,
          .tensor = parallel_.group,
          .context = context_.group};
}

}  // namespace trireme
