// OLMo 2 and 3: Llama's layers with norms at the end of each branch instead of its beginning, and with one norm over
// all query heads and one over all key heads. OLMo 3: windows in most layers, whose rotary embedding is not scaled.
#include "models/layer_kinds.h"

namespace trireme {
namespace {

DecoderSpec OlmoDecoder(const HfConfig& config, const CommonTraits& traits) {
  DecoderSpec decoder = CommonDecoder(config, traits);
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  decoder.attention.wide_qk_norm = true;
  decoder.attention.norms = {.input = false, .output = true};
  decoder.mlp.norms = decoder.attention.norms;
  return decoder;
}

}  // namespace

LayerGraph Olmo2(const HfConfig& config) {
  const DecoderSpec decoder = OlmoDecoder(config, {.norm_eps = 1e-5});
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder), OutputNormNames());
}

LayerGraph Olmo3(const HfConfig& config) {
  constexpr double kTheta = 5e5;
  // transformers 4 uses another base in all layers, 5 in those without a window.
  if (!config.Has("rope_parameters")) config.Only("rope_theta", kTheta);
  const DecoderSpec decoder = OlmoDecoder(config, {.norm_eps = 1e-5, .reads_rope = false});
  const LayerKinds kinds{.pattern = 4, .full_theta = kTheta, .sliding_theta = kTheta};
  return DecoderGraph(config, LayersByKind(config, decoder, kinds), OutputNormNames());
}

}  // namespace trireme
