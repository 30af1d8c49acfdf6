// GLM-4.5 and 4.6: attention of which a part of each head is rotated, optionally with norms of query and key heads; the
// first layers dense, then DeepSeek-V3's router with routed and shared experts. Files have a layer for multi-token
// prediction after the others, which is not used.
#include "core/base/error.h"
#include "models/routed_experts.h"

namespace trireme {

LayerGraph Glm4Moe(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1e-5, .rotary_factor = 0.5});
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.qk_norm = config.Flag("use_qk_norm", false);
  const ExpertsSpec experts = RoutedExperts(config, CorrectedRouter(config), decoder.attention.hidden);
  const int64_t layers = config.Size("num_hidden_layers");
  std::vector<DecoderSpec> decoders(layers, decoder);
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (layer >= config.WholeNumber("first_k_dense_replace").value_or(1)) decoders[layer].experts = experts;
  }
  LayerNames names = SharedExpertsNames();
  names.emplace_back("router.bias", "mlp.gate.e_score_correction_bias");
  LayerGraph graph = DecoderGraph(config, decoders, names);
  for (int64_t extra = 0; extra < config.WholeNumber("num_nextn_predict_layers").value_or(0); ++extra) {
    graph.unused.push_back(Concat("model.layers.", layers + extra, "."));
  }
  return graph;
}

}  // namespace trireme
