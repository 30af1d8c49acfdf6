// GLM-4.5 to 4.7, GLM-4.7-Flash and Solar Open: the first layers dense, of Solar Open none, then DeepSeek-V3's router
// with routed and shared experts. Attention: a part of each head is rotated, optionally with norms of query and key
// heads; of GLM-4.7-Flash DeepSeek's latent attention. Files have a layer for multi-token prediction after the others,
// which is not used.
#include "core/base/error.h"
#include "models/latent_decoder.h"
#include "models/routed_experts.h"

namespace trireme {
namespace {

LayerGraph GlmMoeGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders, const LayerNames& names) {
  LayerGraph graph = DecoderGraph(config, decoders, names);
  for (int64_t extra = 0; extra < config.WholeNumber("num_nextn_predict_layers").value_or(0); ++extra) {
    graph.unused.push_back(Concat("model.layers.", std::ssize(decoders) + extra, "."));
  }
  return graph;
}

}  // namespace

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
  return GlmMoeGraph(config, decoders, CorrectedNames());
}

LayerGraph Glm4MoeLite(const HfConfig& config) {
  config.Only("first_k_dense_replace", 1);  // of released files; transformers reads mlp_layer_types
  config.Only("partial_rotary_factor", 1.0);
  const DecoderSpec decoder = LatentDecoder(config, {.interleaved = config.Flag("rope_interleave", true)});
  const ExpertsSpec experts = RoutedExperts(config, CorrectedRouter(config), decoder.attention.hidden);
  std::vector<DecoderSpec> decoders;
  for (const bool sparse : LayersWithExperts(config, /*dense=*/1)) {
    decoders.push_back(decoder);
    if (sparse) decoders.back().experts = experts;
  }
  LayerNames names = CorrectedNames();
  for (const auto& latent : LatentNames()) names.push_back(latent);
  return GlmMoeGraph(config, decoders, names);
}

LayerGraph SolarOpen(const HfConfig& config) {
  config.Only("first_k_dense_replace", 0);  // this and the next: of released files, not known to transformers
  config.Only("use_qk_norm", false);
  const int64_t ffn = config.Size("moe_intermediate_size", 1280);
  DecoderSpec decoder =
      CommonDecoder(config, {.norm_eps = 1e-5, .head_dim = 128, .rotary_factor = 1.0, .theta = 1e6, .ffn = ffn});
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.experts = RoutedExperts(config, CorrectedRouter(config), decoder.attention.hidden);
  return GlmMoeGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder), CorrectedNames());
}

}  // namespace trireme
