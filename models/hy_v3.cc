// Hunyuan 3 (Hy3): Llama's attention with a norm of each query and key head; one dense layer, then experts chosen by
// sigmoids with a correction bias, beside shared ones. Files may have a layer for multi-token prediction after the
// others, which is not used.
#include "core/base/error.h"
#include "models/routed_experts.h"

namespace trireme {
namespace {

constexpr char kExtraLayers[] = "num_nextn_predict_layers";

// Keys of released files that transformers does not know: what the models have is what transformers computes.
void CheckHy3(const HfConfig& config, int64_t ffn) {
  for (const char* key : {"qk_norm", "route_norm", "moe_router_use_sigmoid", "moe_router_enable_expert_bias"}) {
    config.Only(key, true);
  }
  config.Only("expert_hidden_dim", ffn);
  config.Only("first_k_dense_replace", 1);
  config.Only("mlp_bias", false);
  // In which precision some steps are computed; here: routers, softmaxes and sums in fp32.
  config.Unused({"enable_moe_fp32_combine", "enable_attention_fp32_softmax", "enable_lm_head_fp32"});
}

ExpertsSpec Hy3Experts(const HfConfig& config, int64_t hidden) {
  ExpertsSpec experts = CommonExperts(config, hidden);
  experts.router.scores = RouterRule::Scores::kSigmoid;
  experts.router.correction_bias = true;
  experts.router.normalise = true;
  experts.router.normalise_eps = 1e-20;
  experts.router.scale = config.Number("router_scaling_factor", 2.826);
  experts.ffn = config.Size("moe_intermediate_size", 1536);
  experts.shared_ffn = config.Size("num_shared_experts", 1) * experts.ffn;
  return experts;
}

LayerNames Hy3Names() {
  return {{"router.weight", "mlp.router.gate.weight"},
          {"router.bias", "mlp.expert_bias"},
          {"shared.gate.weight", "mlp.shared_mlp.gate_proj.weight"},
          {"shared.up.weight", "mlp.shared_mlp.up_proj.weight"},
          {"shared.down.weight", "mlp.shared_mlp.down_proj.weight"}};
}

}  // namespace

LayerGraph HYV3(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1e-5, .head_dim = 128, .theta = 11158840});
  decoder.attention.qk_norm = true;
  decoder.attention.qkv_bias = decoder.attention.output_bias = config.Flag("attention_bias", false);
  const ExpertsSpec experts = Hy3Experts(config, decoder.attention.hidden);
  CheckHy3(config, experts.ffn);
  std::vector<DecoderSpec> decoders;
  for (const bool sparse : LayersWithExperts(config, /*dense=*/1)) {
    decoders.push_back(decoder);
    if (sparse) decoders.back().experts = experts;
  }
  LayerGraph graph = DecoderGraph(config, decoders, Hy3Names());
  for (int64_t extra = 0; extra < config.WholeNumber(kExtraLayers).value_or(0); ++extra) {
    graph.unused.push_back(Concat("model.layers.", std::ssize(decoders) + extra, "."));
  }
  return graph;
}

}  // namespace trireme
