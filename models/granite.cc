// Granite: Llama's layers with factors for the embedding, the scores, what is added to the residual stream, and the
// logits.
#include "models/decoder.h"

namespace trireme {

LayerGraph Granite(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  decoder.mlp.bias = config.Flag("mlp_bias", false);
  decoder.attention.scale = config.Number("attention_multiplier", 1);
  decoder.branch_scale = config.Number("residual_multiplier", 1);
  LayerGraph graph = DecoderGraph(config, decoder);
  std::get<EmbeddingSpec>(graph.layers.front().spec).scale = config.Number("embedding_multiplier", 1);
  std::get<HeadSpec>(graph.layers.back().spec).logit_scale = 1 / config.Number("logits_scaling", 1);
  return graph;
}

}  // namespace trireme
