// Ling and Ring 2.0 (BailingMoeV2): attention with norms of query and key heads, of which a part is rotated; files hold
// queries, keys and values as one matrix. The first layers dense, then DeepSeek-V3's router with routed and shared
// experts. Files may have layers for multi-token prediction after the others, which are not used. Ling 1 has the same
// model_type and other layers, and is refused.
#include "core/base/error.h"
#include "models/routed_experts.h"

namespace trireme {
namespace {

void CheckBailing(const HfConfig& config) {
  const std::string name = config.Architecture();
  if (name != "BailingMoeV2ForCausalLM") {
    throw InputError(config.source(), ": architectures has '", name,
                     "'; wanted BailingMoeV2ForCausalLM, as Ling 2.0 and Ring 2.0 have; the layers of others differ");
  }
  config.Only("use_qk_norm", true);
  config.Only("use_rmsnorm", true);
  config.Only("norm_topk_prob", true);
  config.Only("score_function", "sigmoid");
  config.Only("moe_router_enable_expert_bias", true);
  config.Only("embedding_dropout", 0.0);
  config.Only("output_dropout", 0.0);
  // Of training code, and in which precision the router is computed: here fp32.
  config.Unused({"router_dtype", "mtp_loss_scaling_factor"});
}

LayerNames BailingNames() {
  LayerNames names = {{"attention.q.weight", "attention.query_key_value.weight"},
                      {"attention.k.weight", "attention.query_key_value.weight"},
                      {"attention.v.weight", "attention.query_key_value.weight"},
                      {"attention.q.bias", "attention.query_key_value.bias"},
                      {"attention.k.bias", "attention.query_key_value.bias"},
                      {"attention.v.bias", "attention.query_key_value.bias"},
                      {"attention.q_norm.weight", "attention.query_layernorm.weight"},
                      {"attention.k_norm.weight", "attention.key_layernorm.weight"},
                      {"attention.output.weight", "attention.dense.weight"},
                      {"attention.output.bias", "attention.dense.bias"},
                      {"router.bias", "mlp.gate.expert_bias"}};
  for (const auto& shared : SharedExpertsNames()) names.push_back(shared);
  return names;
}

}  // namespace

LayerGraph BailingMoeV2(const HfConfig& config) {
  CheckBailing(config);
  DecoderSpec decoder = CommonDecoder(config, {.rotary_factor = 1.0, .theta = 6e5});
  decoder.attention.qk_norm = true;
  decoder.attention.qkv_bias = config.Flag("use_qkv_bias", false);
  decoder.attention.output_bias = config.Flag("use_bias", false);
  const ExpertsSpec experts = NumberedExperts(config, /*unsaid_scale=*/1);
  if (experts.shared_ffn > 0) config.Only("moe_shared_expert_intermediate_size", experts.shared_ffn);
  const int64_t layers = config.Size("num_hidden_layers");
  const int64_t dense = config.WholeNumber("first_k_dense_replace").value_or(0);
  std::vector<DecoderSpec> decoders(layers, decoder);
  for (int64_t layer = dense; layer < layers; ++layer) decoders[layer].experts = experts;
  LayerGraph graph = DecoderGraph(config, decoders, BailingNames());
  graph.layers.front().hf_names["embedding.weight"] = "model.word_embeddings.weight";
  for (int64_t extra = 0; extra < config.WholeNumber("num_nextn_predict_layers").value_or(0); ++extra) {
    graph.unused.push_back(Concat("model.layers.", layers + extra, "."));
  }
  return graph;
}

}  // namespace trireme
