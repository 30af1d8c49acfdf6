// EXAONE 4: Llama's layers with norms at the end of each branch instead of its beginning, and with norms of query and
// key heads. Large models have windows in most layers; the others then have no rotary embedding. K-EXAONE (exaone_moe):
// the same attention with norms at the beginning, and after the first layer DeepSeek-V3's router with routed and shared
// experts; files may have layers for multi-token prediction, which are not used.
#include "models/layer_kinds.h"
#include "models/routed_experts.h"

namespace trireme {
namespace {

std::vector<DecoderSpec> ExaoneLayers(const HfConfig& config, const BlockNorms& norms) {
  constexpr char kPattern[] = "sliding_window_pattern";
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1e-5});
  decoder.attention.qk_norm = true;
  decoder.attention.norms = decoder.mlp.norms = norms;
  const bool slides = !config.IsNull("sliding_window");
  // The pattern may be a text; layer_types counts first.
  const bool told = config.Has("layer_types") || !slides;
  if (told) config.Unused({kPattern});
  std::vector<DecoderSpec> decoders;
  for (const std::string& kind : KindsOfLayers(config, told ? 1 : config.Size(kPattern, 4))) {
    AttentionSpec& attention = decoders.emplace_back(decoder).attention;
    if (kind == kSlidingAttention) {
      attention.window = WindowOf(config);
    } else if (slides) {
      attention.rope = NotRotated(attention.head_dim);
    }
  }
  config.Unused({"sliding_window"});
  return decoders;
}

}  // namespace

LayerGraph Exaone4(const HfConfig& config) {
  return DecoderGraph(config, ExaoneLayers(config, {.input = false, .output = true}), OutputNormNames());
}

LayerGraph ExaoneMoe(const HfConfig& config) {
  config.Only("scoring_func", "sigmoid");  // this and the next: of released files, not known to transformers
  config.Only("topk_method", "noaux_tc");
  std::vector<DecoderSpec> decoders = ExaoneLayers(config, {});
  const ExpertsSpec experts = NumberedExperts(config, /*unsaid_scale=*/2.5);
  const std::vector<bool> sparse = LayersWithExperts(config, config.WholeNumber("first_k_dense_replace").value_or(1));
  for (size_t layer = 0; layer < decoders.size(); ++layer) {
    if (sparse[layer]) decoders[layer].experts = experts;
  }
  LayerNames names = SharedExpertsNames();
  names.emplace_back("router.bias", "mlp.e_score_correction_bias");
  LayerGraph graph = DecoderGraph(config, decoders, names);
  if (config.WholeNumber("num_nextn_predict_layers").value_or(0) > 0) graph.unused.emplace_back("mtp.");
  return graph;
}

}  // namespace trireme
