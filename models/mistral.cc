// Mistral and Ministral: Llama's layers without biases; a sliding window over all layers, unless it is null, or, of
// Ministral, over those that layer_types lists.
#include "models/layer_kinds.h"

namespace trireme {
namespace {

constexpr int64_t kUnsaid = 4096;  // transformers' window where the key is missing

}  // namespace

LayerGraph Mistral(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.window = config.IsNull("sliding_window") ? 0 : config.Size("sliding_window", kUnsaid);
  return DecoderGraph(config, decoder);
}

LayerGraph Ministral(const HfConfig& config) {
  if (!config.Has("layer_types")) return Mistral(config);
  std::vector<DecoderSpec> decoders;
  for (const std::string& kind : KindsOfLayers(config, /*pattern=*/1)) {
    decoders.push_back(CommonDecoder(config));
    if (kind == kSlidingAttention) decoders.back().attention.window = config.Size("sliding_window", kUnsaid);
  }
  config.Unused({"sliding_window"});
  return DecoderGraph(config, decoders);
}

}  // namespace trireme
