// MiniMax-M2: one norm over all query heads and one over all key heads, a part of each head rotated; experts in every
// layer, chosen by sigmoids with a correction bias. Files name them as Mixtral's do.
#include "core/base/error.h"
#include "models/decoder.h"

namespace trireme {
namespace {

// Released files give the rotated elements of a head instead of their fraction.
double DefaultRotaryFactor(const HfConfig& config) {
  if (!config.Has("rotary_dim")) return 1;
  return static_cast<double>(config.Size("rotary_dim")) / static_cast<double>(config.Size("head_dim", 128));
}

// Keys of released files that transformers does not know: what the models have is what transformers computes.
void CheckReleasedKeys(const HfConfig& config) {
  config.Only("qk_norm_type", "per_layer");
  config.Only("scoring_func", "sigmoid");
  config.Only("use_qk_norm", true);
  config.Only("use_routing_bias", true);
  config.Only("shared_intermediate_size", 0);
  config.Only("sliding_window", nullptr);
  for (const char* key : {"layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta"}) {
    config.Only(key, 1.0);
  }
  for (const int64_t kind : config.Integers("attn_type_list")) {
    if (kind != 1)
      throw InputError(config.source(), ": attn_type_list has ", kind, "; only 1, full attention, is supported");
  }
  // Of the experts that are not there, and of multi-token prediction, which is not used.
  config.Unused({"mlp_intermediate_size", "shared_moe_mode", "use_mtp", "num_mtp_modules", "mtp_transformer_layers"});
}

}  // namespace

LayerGraph MiniMaxM2(const HfConfig& config) {
  CheckReleasedKeys(config);
  DecoderSpec decoder =
      CommonDecoder(config, {.head_dim = 128, .rotary_factor = DefaultRotaryFactor(config), .theta = 5e6});
  decoder.attention.wide_qk_norm = true;
  ExpertsSpec experts = CommonExperts(config, decoder.attention.hidden);
  experts.ffn = decoder.mlp.ffn;
  experts.router.scores = RouterRule::Scores::kSigmoid;
  experts.router.correction_bias = true;
  experts.router.normalise = true;
  decoder.experts = experts;
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                      {{"router.weight", "block_sparse_moe.gate.weight"},
                       {"router.bias", "block_sparse_moe.e_score_correction_bias"},
                       {"experts.gate.weight", "block_sparse_moe.experts.{expert}.w1.weight"},
                       {"experts.up.weight", "block_sparse_moe.experts.{expert}.w3.weight"},
                       {"experts.down.weight", "block_sparse_moe.experts.{expert}.w2.weight"}});
}

}  // namespace trireme
