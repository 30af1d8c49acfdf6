// Qwen2 and Qwen2.5: biases on query, key and value, never on the output; small models tie their embeddings.
#include "models/decoder.h"

namespace trireme {

LayerGraph Qwen2(const HfConfig& config) {
  config.Only("use_sliding_window", false);
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qkv_bias = true;
  return DecoderGraph(config, decoder);
}

}  // namespace trireme
