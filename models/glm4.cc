// GLM-4 (0414), dense: norms at both ends of each branch; the rotary embedding rotates adjacent elements of a part of
// each head; files hold gate and up as one matrix.
#include "models/decoder.h"

namespace trireme {

LayerGraph Glm4(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1.5625e-7, .head_dim = 128, .rotary_factor = 0.5});
  decoder.attention.interleaved = true;
  decoder.attention.qkv_bias = config.Flag("attention_bias", true);
  decoder.attention.norms.output = true;
  decoder.mlp.norms.output = true;
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                      {{"attention_output_norm.weight", "post_self_attn_layernorm.weight"},
                       {"mlp_output_norm.weight", "post_mlp_layernorm.weight"},
                       {"mlp.gate.weight", "mlp.gate_up_proj.weight"},
                       {"mlp.up.weight", "mlp.gate_up_proj.weight"}});
}

}  // namespace trireme
