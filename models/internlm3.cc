// InternLM 3: Llama's layers, with one switch for the biases of queries, keys and values and another for all others.
#include "models/decoder.h"

namespace trireme {

LayerGraph InternLM3(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qkv_bias = config.Flag("qkv_bias", false);
  decoder.attention.output_bias = decoder.mlp.bias = config.Flag("bias", false);
  return DecoderGraph(config, decoder);
}

}  // namespace trireme
