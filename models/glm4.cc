// GLM-4, dense: GLM-4-9B in transformers' format, and 0414 with norms at both ends of each branch. The rotary embedding
// rotates adjacent elements of a part of each head; files hold gate and up as one matrix. Files with the names of GLM's
// own code (model_type chatglm) are refused: transformers' format has another model_type.
#include "models/decoder.h"

namespace trireme {
namespace {

DecoderSpec GlmDecoder(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1.5625e-7, .head_dim = 128, .rotary_factor = 0.5});
  decoder.attention.interleaved = true;
  decoder.attention.qkv_bias = config.Flag("attention_bias", true);
  return decoder;
}

LayerGraph GlmGraph(const HfConfig& config, const DecoderSpec& decoder) {
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                      {{"attention_output_norm.weight", "post_self_attn_layernorm.weight"},
                       {"mlp_output_norm.weight", "post_mlp_layernorm.weight"},
                       {"mlp.gate.weight", "mlp.gate_up_proj.weight"},
                       {"mlp.up.weight", "mlp.gate_up_proj.weight"}});
}

}  // namespace

LayerGraph Glm(const HfConfig& config) { return GlmGraph(config, GlmDecoder(config)); }

LayerGraph Glm4(const HfConfig& config) {
  DecoderSpec decoder = GlmDecoder(config);
  decoder.attention.norms.output = true;
  decoder.mlp.norms.output = true;
  return GlmGraph(config, decoder);
}

}  // namespace trireme
