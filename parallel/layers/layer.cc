#include "parallel/layers/layer.h"

#include "parallel/experts/token_shard.h"
#include "parallel/layers/decoder.h"
#include "parallel/layers/embedding.h"
#include "parallel/layers/head.h"
#include "parallel/layers/image_features.h"
#include "parallel/layers/mtp.h"
#include "parallel/layers/patches.h"
#include "parallel/layers/vision.h"

namespace trireme {
namespace {

struct Make {
  const Layer& layer;
  const Weights& weights;
  const LayerParallel& parallel;
  const LayerOptions& options;

  std::unique_ptr<RunningLayer> operator()(const EmbeddingSpec&) const {
    return std::make_unique<EmbeddingLayer>(layer, weights, parallel.tensor, options);
  }
  std::unique_ptr<RunningLayer> operator()(const DecoderSpec& spec) const {
    if (spec.taps > 0) return std::make_unique<TappedDecoder>(layer, weights, parallel, options);
    return std::make_unique<DecoderLayer>(layer, weights, parallel, options);
  }
  std::unique_ptr<RunningLayer> operator()(const MtpSpec&) const {
    return std::make_unique<MtpLayer>(layer, weights, parallel, options);
  }
  std::unique_ptr<RunningLayer> operator()(const PatchSpec&) const {
    return std::make_unique<PatchLayer>(layer, weights, options);
  }
  std::unique_ptr<RunningLayer> operator()(const VisionSpec&) const {
    return std::make_unique<VisionLayer>(layer, weights, parallel.tensor, options);
  }
  std::unique_ptr<RunningLayer> operator()(const MergerSpec&) const {
    return std::make_unique<MergerLayer>(layer, weights, parallel.tensor, options);
  }
  std::unique_ptr<RunningLayer> operator()(const HeadSpec&) const {
    return std::make_unique<HeadLayer>(layer, weights, parallel);
  }
};

}  // namespace

std::shared_ptr<const Dropout> HiddenDropout(const std::string& place, double rate, PassContext& pass,
                                             const TensorParallel& parallel) {
  if (rate == 0 || !pass.options.dropout) return nullptr;
  const at::Tensor rows = parallel.sequence ? ShardOf(pass.input.identities, parallel) : pass.input.identities;
  return std::make_shared<const Dropout>(
      Dropout{.rate = rate, .random = RandomStream(*pass.options.dropout, place), .rows = rows});
}

std::unique_ptr<RunningLayer> MakeLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel,
                                        const LayerOptions& options) {
  return std::visit(Make{layer, weights, parallel, options}, layer.spec);
}

}  // namespace trireme
