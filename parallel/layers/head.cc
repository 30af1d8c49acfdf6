#include "parallel/layers/head.h"

#include <ATen/ops/stack.h>

#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "parallel/layers/cross_entropy.h"
#include "parallel/layers/embedding.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

HeadLayer::HeadLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel)
    : spec_(std::get<HeadSpec>(layer.spec)),
      parallel_(parallel),
      norm_(weights.FindOrNull(layer.name + ".norm.weight")),
      logits_(weights.Find(spec_.tied ? kEmbeddingWeight : layer.name + ".logits.weight")) {}

at::Tensor HeadLayer::Forward(const at::Tensor& x, const MicroBatch& batch) const {
  if (batch.cache != nullptr) return Logits(x, batch.wanted);
  if (batch.ahead.empty()) return LossOf(x, batch, 1);
  const std::vector<at::Tensor> depths = x.chunk(1 + static_cast<int64_t>(batch.ahead.size()));
  std::vector<at::Tensor> losses = {LossOf(depths[0], batch, 1)};
  for (size_t i = 0; i < batch.ahead.size(); ++i) {
    losses.push_back(LossOf(depths[i + 1], batch.ahead[i], spec_.depth_weight));
  }
  return at::stack(losses);
}

at::Tensor HeadLayer::Normalised(const at::Tensor& x) const {
  return norm_ == nullptr ? x : RmsNorm(x, *norm_, spec_.norm_eps);
}

at::Tensor HeadLayer::LossOf(const at::Tensor& x, const MicroBatch& batch, double weight) const {
  const at::Tensor hidden = Enter(Normalised(x), parallel_);
  const CrossEntropyOptions options{
      .vocabulary = spec_.vocabulary, .scale = batch.loss_scale, .gradient_weight = weight};
  if (batch.evaluates) return LossAndHits(hidden, batch.labels, logits_, parallel_.group, options);
  return ShardedCrossEntropy(hidden, batch.labels, logits_, parallel_.group, options);
}

at::Tensor HeadLayer::Logits(const at::Tensor& x, const at::Tensor& wanted) const {
  const at::Tensor hidden = Normalised(Enter(x, parallel_).index_select(0, wanted));
  const at::Tensor mine = Linear(hidden, logits_);  // [wanted, vocabulary / tp]
  const at::Tensor shards = AllGatherRows(mine, parallel_.group).view({parallel_.size(), -1, mine.size(1)});
  return shards.transpose(0, 1).flatten(1).narrow(1, 0, spec_.vocabulary);
}

}  // namespace trireme
