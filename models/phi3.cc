// Phi-3 and Phi-4: Llama's layers without biases, whose files hold queries, keys and values as one matrix, and gate and
// up as one; optionally a sliding window over all layers. Those for 128k tokens have longrope; Phi-4-mini rotates a
// part of each head.
#include "models/decoder.h"

namespace trireme {

LayerGraph Phi3(const HfConfig& config) {
  config.Only("attention_bias", false);
  config.Only("embd_pdrop", 0.0);
  config.Only("resid_pdrop", 0.0);
  config.Only("mlp_bias", false);
  config.Only("lm_head_bias", false);
  config.Unused({"interpolate_factor", "full_attn_mod"});  // keys of released files that no code reads
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1e-5, .rotary_factor = 1.0, .phi3_rope = true});
  decoder.attention.window = config.Has("sliding_window") ? config.Size("sliding_window") : 0;
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                      {{"attention.q.weight", "self_attn.qkv_proj.weight"},
                       {"attention.k.weight", "self_attn.qkv_proj.weight"},
                       {"attention.v.weight", "self_attn.qkv_proj.weight"},
                       {"mlp.gate.weight", "mlp.gate_up_proj.weight"},
                       {"mlp.up.weight", "mlp.gate_up_proj.weight"}});
}

}  // namespace trireme
