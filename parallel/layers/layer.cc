#include "parallel/layers/layer.h"

#include "parallel/layers/decoder.h"
#include "parallel/layers/embedding.h"
#include "parallel/layers/head.h"

namespace trireme {
namespace {

struct Make {
  const Layer& layer;
  const Weights& weights;
  const TensorParallel& parallel;

  std::unique_ptr<RunningLayer> operator()(const EmbeddingSpec&) const {
    return std::make_unique<EmbeddingLayer>(layer, weights, parallel);
  }
  std::unique_ptr<RunningLayer> operator()(const DecoderSpec&) const {
    return std::make_unique<DecoderLayer>(layer, weights, parallel);
  }
  std::unique_ptr<RunningLayer> operator()(const HeadSpec&) const {
    return std::make_unique<HeadLayer>(layer, weights, parallel);
  }
};

}  // namespace

std::unique_ptr<RunningLayer> MakeLayer(const Layer& layer, const Weights& weights,
                                        const TensorParallel& parallel) {
  return std::visit(Make{layer, weights, parallel}, layer.spec);
}

}  // namespace trireme
