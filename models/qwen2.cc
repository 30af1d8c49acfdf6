// Qwen2 and Qwen2.5: biases on query, key and value, never on the output; small models tie their
// embeddings; the upper layers may have a sliding window.
#include "models/decoder.h"

namespace trireme {

LayerGraph Qwen2(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qkv_bias = true;
  return DecoderGraph(config, WindowedLayers(config, decoder));
}

}  // namespace trireme
