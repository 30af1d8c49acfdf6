// DeepSeek-V2 and V3: latent attention, first layers dense, then routed and shared experts with group-limited
// routing. V2 uses a softmax and scores a group by its largest expert, V3 sigmoids with a correction bias and
// the best two. V3's files may have mtp layers after the others.
#include "core/base/error.h"
#include "models/latent_decoder.h"
#include "models/routed_experts.h"

namespace trireme {
namespace {

constexpr char kMtpLayers[] = "num_nextn_predict_layers";

LayerNames Names() {
  LayerNames names = SharedExpertsNames();
  for (const auto& latent : LatentNames()) names.push_back(latent);
  names.emplace_back("router.bias", "mlp.gate.e_score_correction_bias");
  return names;
}

LayerGraph Graph(const HfConfig& config, const RouterRule& rule) {
  const auto layers = static_cast<size_t>(config.Size("num_hidden_layers"));
  const bool has_mtp = config.Number(kMtpLayers, 0) != 0;
  const size_t mtp_layers = has_mtp ? static_cast<size_t>(config.Size(kMtpLayers)) : 0;
  const auto dense = static_cast<size_t>(config.Number("first_k_dense_replace", 0));
  config.Only("moe_layer_freq", 1);
  const DecoderSpec decoder = LatentDecoder(config, {.interleaved = config.Flag("rope_interleave", true)});
  std::vector<DecoderSpec> decoders(layers + mtp_layers, decoder);
  for (size_t layer = dense; layer < decoders.size(); ++layer) {
    decoders[layer].experts = RoutedExperts(config, rule, decoders[layer].attention.hidden);
  }
  LayerGraph graph = DecoderGraph(config, {decoders.begin(), decoders.begin() + static_cast<int64_t>(layers)}, Names());
  for (size_t layer = layers; layer < decoders.size(); ++layer) {
    const auto depth = static_cast<int64_t>(layer - layers) + 1;
    graph.mtp.push_back(MtpLayer(layer, depth, decoders[layer], Names()));
    graph.unused.push_back(Concat("model.layers.", layer, "."));
  }
  return graph;
}

}  // namespace

LayerGraph DeepseekV2(const HfConfig& config) {
  config.Only("scoring_func", "softmax");
  config.Only("norm_topk_prob", false);
  RouterRule rule = RoutedRule(config);
  const std::string method = config.Has("topk_method") ? config.Text("topk_method") : "greedy";
  if (method == "group_limited_greedy") {
    LimitToGroups(config, rule);
  } else {
    config.Only("topk_method", "greedy");
    config.Unused({"n_group", "topk_group"});
  }
  return Graph(config, rule);
}

LayerGraph DeepseekV3(const HfConfig& config) { return Graph(config, CorrectedRouter(config)); }

}  // namespace trireme
