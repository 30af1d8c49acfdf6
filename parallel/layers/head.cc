#include "parallel/layers/head.h"

#include "ops/rms_norm.h"
#include "parallel/layers/cross_entropy.h"

namespace trireme {

HeadLayer::HeadLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel)
    : spec_(std::get<HeadSpec>(layer.spec)),
      parallel_(parallel),
      norm_(weights.Find(layer.name + ".norm.weight")),
      logits_(weights.Find(spec_.tied ? "embedding.embedding.weight" : layer.name + ".logits.weight")) {}

at::Tensor HeadLayer::Forward(const at::Tensor& x, const MicroBatch& batch) const {
  const at::Tensor hidden = Enter(RmsNorm(x, norm_, spec_.norm_eps), parallel_);
  const CrossEntropyOptions options{.vocabulary = spec_.vocabulary, .scale = batch.loss_scale};
  if (batch.evaluates) return LossAndHits(hidden, batch.labels, logits_, parallel_.group, options);
  return ShardedCrossEntropy(hidden, batch.labels, logits_, parallel_.group, options);
}

}  // namespace trireme
