// SmolLM3: Llama's layers, of which some, by default each fourth, have no rotary embedding; optionally a window in
// these.
#include "core/base/error.h"
#include "models/layer_kinds.h"

namespace trireme {
namespace {

// For each layer whether it has a rotary embedding: no_rope_layers says 1 for those that have one.
std::vector<bool> RotatedLayers(const HfConfig& config) {
  const int64_t layers = config.Size("num_hidden_layers"), interval = config.Size("no_rope_layer_interval", 4);
  const std::vector<int64_t> told = config.Integers("no_rope_layers");
  if (!told.empty() && std::ssize(told) < layers) {
    throw InputError(config.source(), ": no_rope_layers has ", told.size(), " entries; num_hidden_layers is ", layers);
  }
  std::vector<bool> rotated;
  for (int64_t layer = 0; layer < layers; ++layer) {
    rotated.push_back(told.empty() ? (layer + 1) % interval != 0 : told[layer] != 0);
  }
  return rotated;
}

}  // namespace

LayerGraph SmolLM3(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config, {.theta = 2e6});
  decoder.attention.qkv_bias = decoder.attention.output_bias = config.Flag("attention_bias", false);
  decoder.mlp.bias = config.Flag("mlp_bias", false);
  const bool slides = config.Flag("use_sliding_window", false) && config.Has("sliding_window");
  const std::vector<std::string> kinds = KindsOfLayers(config, /*pattern=*/1);
  std::vector<DecoderSpec> decoders;
  for (const bool rotated : RotatedLayers(config)) {
    const bool windowed = config.Has("layer_types") ? kinds[decoders.size()] == kSlidingAttention : slides && !rotated;
    if (windowed && !slides) {
      throw InputError(config.source(), ": layer_types has '", kSlidingAttention, "' for layer ", decoders.size(),
                       "; wanted full_attention, or use_sliding_window: true with a sliding_window");
    }
    AttentionSpec& attention = decoders.emplace_back(decoder).attention;
    if (windowed) attention.window = WindowOf(config);
    if (!rotated) attention.rope = NotRotated(attention.head_dim);
  }
  config.Unused({"sliding_window", "max_window_layers"});
  LayerGraph graph = DecoderGraph(config, decoders);
  std::get<HeadSpec>(graph.layers.back().spec).tied = config.Flag("tie_word_embeddings", true);
  return graph;
}

}  // namespace trireme
