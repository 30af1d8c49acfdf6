// dots.llm1: Qwen3's attention, optionally with a window in some layers; the first layers dense, then DeepSeek-V3's
// router with routed and shared experts.
#include "models/layer_kinds.h"
#include "models/routed_experts.h"

namespace trireme {
namespace {

// Where layer_types is missing: the layers from max_window_layers on have a window, unless sliding_window is null.
bool HasWindow(const HfConfig& config, const std::vector<std::string>& kinds, int64_t layer) {
  if (config.Has("layer_types")) return kinds[layer] == kSlidingAttention;
  return !config.IsNull("sliding_window") && layer >= config.WholeNumber("max_window_layers").value_or(62);
}

// Keys of released files that transformers does not know.
void CheckReleased(const HfConfig& config) {
  config.Only("moe_layer_freq", 1);
  config.Only("use_sliding_window", false);
  const bool method = config.Has("scoring_func") && config.Text("scoring_func") == "noaux_tc";
  if (!method) config.Only("scoring_func", "sigmoid");
}

}  // namespace

LayerGraph Dots1(const HfConfig& config) {
  CheckReleased(config);
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qk_norm = true;
  decoder.attention.qkv_bias = decoder.attention.output_bias = config.Flag("attention_bias", false);
  RouterRule rule = SigmoidRouter(config);
  rule.normalise = config.Flag("norm_topk_prob", false);
  const ExpertsSpec experts = RoutedExperts(config, rule, decoder.attention.hidden);
  const std::vector<std::string> kinds = KindsOfLayers(config, /*pattern=*/1);
  const int64_t dense = config.WholeNumber("first_k_dense_replace").value_or(0);
  std::vector<DecoderSpec> decoders(kinds.size(), decoder);
  for (int64_t layer = 0; layer < std::ssize(decoders); ++layer) {
    if (layer >= dense) decoders[layer].experts = experts;
    if (HasWindow(config, kinds, layer)) decoders[layer].attention.window = WindowOf(config);
  }
  config.Unused({"sliding_window", "max_window_layers"});
  return DecoderGraph(config, decoders, CorrectedNames());
}

}  // namespace trireme
