// Llama 2 and 3.x: grouped-query attention, optional biases, llama3 rotary scaling.
#include "models/decoder.h"

namespace trireme {

LayerGraph Llama(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  decoder.mlp.bias = config.Flag("mlp_bias", false);
  return DecoderGraph(config, decoder);
}

}  // namespace trireme
