// Hunyuan, dense and with experts: Llama's layers with a norm of each query and key head after the rotary embedding,
// whose base a fixed alpha stretches. With experts: a softmax over all of them, and a shared mlp of the same size, in
// each layer.
#include "core/base/error.h"
#include "models/decoder.h"

namespace trireme {
namespace {

DecoderSpec HunyuanDecoder(const HfConfig& config) {
  // Keys of released files that transformers does not know.
  for (const char* key : {"use_cla", "use_mla", "mlp_bias", "position_embedding_xdrope", "add_classification_head"}) {
    config.Only(key, false);
  }
  config.Only("use_qk_norm", true);
  config.Only("use_rotary_pos_emb", true);
  config.Unused({"eod_token_id", "cla_share_factor", "class_num", "dense_list", "pool_type", "org_vocab_size"});
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1e-5, .ntk_alpha = true});
  decoder.attention.late_qk_norm = true;
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  return decoder;
}

LayerNames HunyuanNames() {
  return {{"attention.q_norm.weight", "self_attn.query_layernorm.weight"},
          {"attention.k_norm.weight", "self_attn.key_layernorm.weight"},
          {"router.weight", "mlp.gate.wg.weight"},
          {"shared.gate.weight", "mlp.shared_mlp.gate_proj.weight"},
          {"shared.up.weight", "mlp.shared_mlp.up_proj.weight"},
          {"shared.down.weight", "mlp.shared_mlp.down_proj.weight"}};
}

// A number for all layers, or a list with one for each.
std::vector<int64_t> TopKOfLayers(const HfConfig& config, size_t layers, int64_t experts) {
  const std::optional<int64_t> one = config.WholeNumber("moe_topk");
  const std::vector<int64_t> each = one ? std::vector<int64_t>(layers, *one) : config.Integers("moe_topk");
  if (each.size() != layers) {
    throw InputError(config.source(), ": moe_topk has ", each.size(), " entries; num_hidden_layers is ", layers);
  }
  for (const int64_t top_k : each) {
    if (top_k >= 1 && top_k <= experts) continue;
    throw InputError(config.source(), ": moe_topk has ", top_k, "; wanted 1 to num_experts = ", experts);
  }
  return each;
}

}  // namespace

LayerGraph HunYuanDenseV1(const HfConfig& config) {
  const std::vector<DecoderSpec> decoders(config.Size("num_hidden_layers"), HunyuanDecoder(config));
  return DecoderGraph(config, decoders, HunyuanNames());
}

LayerGraph HunYuanMoEV1(const HfConfig& config) {
  std::vector<DecoderSpec> decoders(config.Size("num_hidden_layers"), HunyuanDecoder(config));
  const MlpSpec& mlp = decoders.front().mlp;
  ExpertsSpec experts{.router = {.experts = config.Size("num_experts"), .normalise = true},
                      .hidden = mlp.hidden,
                      .ffn = mlp.ffn,
                      .shared_ffn = mlp.ffn};
  const std::vector<int64_t> top_k = TopKOfLayers(config, decoders.size(), experts.router.experts);
  for (size_t layer = 0; layer < decoders.size(); ++layer) {
    experts.router.top_k = top_k[layer];
    decoders[layer].experts = experts;
  }
  return DecoderGraph(config, decoders, HunyuanNames());
}

}  // namespace trireme
