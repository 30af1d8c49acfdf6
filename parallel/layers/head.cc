#include "parallel/layers/head.h"

#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "parallel/layers/cross_entropy.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

HeadLayer::HeadLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel)
    : spec_(std::get<HeadSpec>(layer.spec)),
      parallel_(parallel),
      norm_(weights.Find(layer.name + ".norm.weight")),
      logits_(weights.Find(spec_.tied ? "embedding.embedding.weight" : layer.name + ".logits.weight")) {}

at::Tensor HeadLayer::Forward(const at::Tensor& x, const MicroBatch& batch) const {
  if (batch.cache != nullptr) return Logits(x, batch.wanted);
  const at::Tensor hidden = Enter(RmsNorm(x, norm_, spec_.norm_eps), parallel_);
  const CrossEntropyOptions options{.vocabulary = spec_.vocabulary, .scale = batch.loss_scale};
  if (batch.evaluates) return LossAndHits(hidden, batch.labels, logits_, parallel_.group, options);
  return ShardedCrossEntropy(hidden, batch.labels, logits_, parallel_.group, options);
}

at::Tensor HeadLayer::Logits(const at::Tensor& x, const at::Tensor& wanted) const {
  const at::Tensor hidden = RmsNorm(Enter(x, parallel_).index_select(0, wanted), norm_, spec_.norm_eps);
  const at::Tensor mine = Linear(hidden, logits_);  // [wanted, vocabulary / tp]
  const at::Tensor shards = AllGatherRows(mine, parallel_.group).view({parallel_.size(), -1, mine.size(1)});
  return shards.transpose(0, 1).flatten(1).narrow(1, 0, spec_.vocabulary);
}

}  // namespace trireme
