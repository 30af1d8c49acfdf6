#include "parallel/layers/mtp.h"

#include <ATen/ops/cat.h>

#include "parallel/experts/token_shard.h"
#include "parallel/layers/embedding.h"

namespace trireme {
namespace {

Layer BlockOf(const Layer& layer) {
  Layer block = layer;
  block.spec = std::get<MtpSpec>(layer.spec).decoder;
  return block;
}

}  // namespace

MtpLayer::MtpLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel,
                   const LayerOptions& options)
    : spec_(std::get<MtpSpec>(layer.spec)),
      norm_eps_(spec_.decoder.norm_eps),
      parallel_(parallel.tensor),
      embedding_(weights.Find(kEmbeddingWeight)),
      model_norm_(weights.FindOrNull(layer.name + ".model_norm.weight")),
      embedding_norm_(weights.Find(layer.name + ".embedding_norm.weight")),
      hidden_norm_(weights.Find(layer.name + ".hidden_norm.weight")),
      join_(weights.Find(layer.name + ".join.weight")),
      block_(BlockOf(layer), weights, parallel, options),
      norm_(weights.Find(layer.name + ".norm.weight")) {}

at::Tensor MtpLayer::Forward(const at::Tensor& x, PassContext& pass) const {
  const at::Tensor states = model_norm_ == nullptr ? x : RmsNorm(x, *model_norm_, norm_eps_);
  if (pass.mtp_depths() == 0) return states;
  PassContext& mtp_pass = pass.mtp(spec_.depth - 1);
  const int64_t tokens = states.size(0) / spec_.depth;
  const at::Tensor before = states.narrow(0, (spec_.depth - 1) * tokens, tokens);
  const at::Tensor own = block_.Forward(Join(before, mtp_pass), mtp_pass);
  return at::cat({states, RmsNorm(own, norm_, norm_eps_)});
}

// Each rank joins only its shard of the tokens, even where it holds all.
at::Tensor MtpLayer::Join(const at::Tensor& before, PassContext& mtp_pass) const {
  const at::Tensor tokens = LookUp(before, mtp_pass.input.tokens, embedding_, spec_.padding, parallel_);
  const at::Tensor both =
      at::cat({RmsNorm(tokens, embedding_norm_, norm_eps_), RmsNorm(before, hidden_norm_, norm_eps_)}, 1);
  return GiveShard(Linear(TakeShard(both, parallel_), join_), parallel_);
}

}  // namespace trireme
