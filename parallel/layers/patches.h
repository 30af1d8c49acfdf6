// The first layer of a vision tower: pixels of patches to hidden states, in the tower's order, with learned positions
// interpolated to each image's grid, or, of tiles, with their class tokens and positions (tiles.h).
#pragma once

#include "parallel/layers/layer.h"

namespace trireme {

class PatchLayer : public RunningLayer {
 public:
  PatchLayer(const Layer& layer, const Weights& weights, const LayerOptions& options);
  // `anchor` only requires a gradient. Returns [states, hidden]: of all images of the micro batch whose features
  // are not kept, on every rank.
  at::Tensor Forward(const at::Tensor& anchor, PassContext& pass) const override;

 private:
  const PatchSpec spec_;
  const KeptFeatures* const kept_;
  const Weight& weight_;       // [hidden, channels, frames, rows, columns]
  const Weight* bias_;         // [hidden]
  const Weight* class_token_;  // [1, 1, hidden]: of tiles
  const Weight* positions_;    // [side · side, hidden], or of tiles [1, 1 + patches, hidden]
};

}  // namespace trireme
