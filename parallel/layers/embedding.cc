#include "parallel/layers/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/tensor/device_copies.h"
#include "parallel/experts/token_shard.h"
#include "parallel/layers/embedding_noise.h"
#include "parallel/layers/image_features.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// `anchor` only requires a gradient: without it autograd would not call backward here. held, learns: [tokens], whether
// this rank has the token's row, and whether the row gets a gradient.
struct LookupFunction : torch::autograd::Function<LookupFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& anchor, const at::Tensor& indices,
                            const at::Tensor& held, const at::Tensor& learns, const Weight* weight) {
    context->save_for_backward({indices, learns});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    return at::embedding(weight->value, indices) * held.unsqueeze(1).to(weight->value.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    if (weight->trained()) {
      at::Tensor sum = weight->gradient_sum();
      sum.index_add_(0, saved[0], gradients[0].to(at::kFloat) * saved[1].unsqueeze(1));
    }
    return {at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor LookUp(const at::Tensor& anchor, const at::Tensor& tokens, const Weight& weight, int64_t padding,
                  const TensorParallel& parallel) {
  const int64_t held_rows = weight.value.size(0);
  const at::Tensor local = tokens - parallel.rank() * held_rows;
  const at::Tensor held = (local >= 0).logical_and(local < held_rows);
  const at::Tensor learns = padding == kNoPadding ? held : held.logical_and(tokens != padding);
  return ReduceFromTensorRegion(LookupFunction::apply(anchor, local * held, held, learns, &weight), parallel);
}

EmbeddingLayer::EmbeddingLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel,
                               const LayerOptions& options)
    : spec_(std::get<EmbeddingSpec>(layer.spec)),
      weight_(weights.Find(layer.name + ".embedding.weight")),
      parallel_(parallel),
      whole_{parallel.group, /*sequence=*/false},
      dropout_(options.hidden_dropout),
      neftune_alpha_(options.neftune_alpha) {}

double EmbeddingLayer::ScaleFor(at::ScalarType type) const {
  return spec_.scale_in_dtype ? at::scalar_tensor(spec_.scale, at::TensorOptions(type)).item<double>() : spec_.scale;
}

// Before the family's scale, which transformers applies outside the module that its noise is added to.
at::Tensor EmbeddingLayer::WithNoise(const at::Tensor& x, const PassContext& pass) const {
  if (neftune_alpha_ == 0 || !pass.options.dropout) return x;
  const auto mine = [&](const at::Tensor& tokens) { return parallel_.sequence ? ShardOf(tokens, parallel_) : tokens; };
  const at::Tensor noise = MakeNoise({.alpha = neftune_alpha_,
                                      .random = RandomStream(*pass.options.dropout, "neftune"),
                                      .rows = mine(pass.input.identities),
                                      .document_tokens = mine(pass.input.document_tokens)},
                                     x.size(1));
  return x + Upload(noise, x.device()).to(x.scalar_type());
}

at::Tensor EmbeddingLayer::Forward(const at::Tensor& anchor, PassContext& pass) const {
  const at::Tensor found = WithNoise(LookUp(anchor, pass.input.tokens, weight_, spec_.padding, parallel_), pass);
  const at::Tensor x = spec_.scale == 1 ? found : found * ScaleFor(found.scalar_type());
  const auto dropout = HiddenDropout("embedding", dropout_, pass, parallel_);
  const at::Tensor y = dropout ? WithDropout(x, dropout) : x;
  return spec_.sees ? PlaceFeatures(y, anchor, spec_.taps, pass, parallel_, whole_) : y;
}

}  // namespace trireme
