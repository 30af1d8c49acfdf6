// Mistral and Ministral 8B: Llama's layers without biases; a sliding window over all layers, unless it is null.
#include "models/decoder.h"

namespace trireme {

LayerGraph Mistral(const HfConfig& config) {
  constexpr int64_t kUnsaid = 4096;  // transformers' window where the key is missing
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.window = config.IsNull("sliding_window") ? 0 : config.Size("sliding_window", kUnsaid);
  return DecoderGraph(config, decoder);
}

}  // namespace trireme
