#include "models/latent_decoder.h"

#include <cmath>

namespace trireme {
namespace {

LatentSpec LatentOf(const HfConfig& config, const LatentTraits& traits) {
  config.Only("attention_bias", false);
  LatentSpec latent{
      .query_rank = config.Has("q_lora_rank") ? config.Size("q_lora_rank") : 0,
      .kv_rank = config.Size("kv_lora_rank"),
      .qk_nope_head_dim = config.Size("qk_nope_head_dim"),
      .qk_rope_head_dim = config.Size("qk_rope_head_dim"),
      .value_dim = traits.value_dim > 0 ? config.Size("v_head_dim", traits.value_dim) : config.Size("v_head_dim"),
      .interleaved = traits.interleaved};
  config.Only("qk_head_dim", latent.head_dim());
  latent.scale = config.YarnScoreScale() / std::sqrt(static_cast<double>(latent.head_dim()));
  return latent;
}

}  // namespace

DecoderSpec LatentDecoder(const HfConfig& config, const LatentTraits& traits) {
  config.Only("mlp_bias", false);
  DecoderSpec decoder = CommonDecoder(config, {.reads_rope = false});
  AttentionSpec& attention = decoder.attention;
  attention.latent = LatentOf(config, traits);
  attention.kv_heads = attention.heads;
  attention.head_dim = attention.latent->head_dim();
  attention.rope = config.Rope(attention.latent->qk_rope_head_dim);
  return decoder;
}

LayerNames LatentNames() {
  return {{"attention.q_a.weight", "self_attn.q_a_proj.weight"},
          {"attention.q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
          {"attention.q_b.weight", "self_attn.q_b_proj.weight"},
          {"attention.kv_a.weight", "self_attn.kv_a_proj_with_mqa.weight"},
          {"attention.kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
          {"attention.kv_b.weight", "self_attn.kv_b_proj.weight"}};
}

}  // namespace trireme
