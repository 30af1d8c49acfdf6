// InternLM 2 and 2.5: Llama's layers under names of their own, with one matrix for queries, keys and values, key head
// by key head.
#include "models/decoder.h"

namespace trireme {

LayerGraph InternLM2(const HfConfig& config) {
  config.Only("tie_word_embeddings", false);
  DecoderSpec decoder = CommonDecoder(config);
  AttentionSpec& attention = decoder.attention;
  attention.qkv_by_group = true;
  attention.qkv_bias = attention.output_bias = config.Flag("bias", true);
  LayerGraph graph = DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                                  {{"attention_norm.weight", "attention_norm.weight"},
                                   {"attention.qkv.weight", "attention.wqkv.weight"},
                                   {"attention.qkv.bias", "attention.wqkv.bias"},
                                   {"attention.output.weight", "attention.wo.weight"},
                                   {"attention.output.bias", "attention.wo.bias"},
                                   {"mlp_norm.weight", "ffn_norm.weight"},
                                   {"mlp.gate.weight", "feed_forward.w1.weight"},
                                   {"mlp.up.weight", "feed_forward.w3.weight"},
                                   {"mlp.down.weight", "feed_forward.w2.weight"}});
  graph.layers.front().hf_names["embedding.weight"] = "model.tok_embeddings.weight";
  graph.layers.back().hf_names["logits.weight"] = "output.weight";
  return graph;
}

}  // namespace trireme
