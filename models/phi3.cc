// Phi-3 and Phi-4: Llama's layers without biases, whose files hold queries, keys and values as one matrix, and gate and up
// as one; optionally a sliding window over all layers.
#include "models/decoder.h"

namespace trireme {

LayerGraph Phi3(const HfConfig& config) {
  config.Only("partial_rotary_factor", 1.0);
  config.Only("attention_bias", false);
  config.Only("embd_pdrop", 0.0);
  config.Only("resid_pdrop", 0.0);
  config.Unused({"original_max_position_embeddings"});  // of longrope, which is refused
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.window = config.Has("sliding_window") ? config.Size("sliding_window") : 0;
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                      {{"attention.q.weight", "self_attn.qkv_proj.weight"},
                       {"attention.k.weight", "self_attn.qkv_proj.weight"},
                       {"attention.v.weight", "self_attn.qkv_proj.weight"},
                       {"mlp.gate.weight", "mlp.gate_up_proj.weight"},
                       {"mlp.up.weight", "mlp.gate_up_proj.weight"}});
}

}  // namespace trireme
