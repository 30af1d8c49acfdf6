// Qwen3-Next: layers of Gated DeltaNet, whose projections files fuse, among layers of attention, whose heads are
// rotated in part; experts with a shared one behind a gate.
#include "models/delta_layers.h"

namespace trireme {

LayerGraph Qwen3Next(const HfConfig& config) {
  std::vector<DecoderSpec> decoders = DeltaLayers(config, {.head_dim = 256, .rotary_factor = 0.25}, /*fused=*/true);
  ExpertsSpec experts = GatedExperts(config, decoders.front().attention.hidden);
  experts.router.normalise = config.Flag("norm_topk_prob", true);
  const std::vector<DecoderSpec> sparse = SparseLayers(config, decoders.front(), experts);
  for (size_t layer = 0; layer < decoders.size(); ++layer) decoders[layer].experts = sparse[layer].experts;
  return DeltaGraph(config, decoders);
}

}  // namespace trireme
