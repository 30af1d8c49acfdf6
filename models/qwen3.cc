// Qwen3: every query and key head is normalised before the rotary embedding; the config sets head_dim.
#include "models/decoder.h"

namespace trireme {

LayerGraph Qwen3(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qk_norm = true;
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  return DecoderGraph(config, WindowedLayers(config, decoder));
}

}  // namespace trireme
