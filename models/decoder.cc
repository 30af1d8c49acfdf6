#include "models/decoder.h"

#include <string>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

// Role to name below "model.layers.N."; what a family does not have is never asked for.
constexpr std::pair<const char*, const char*> kLayerNames[] = {
    {"attention_norm.weight", "input_layernorm.weight"},
    {"attention.q.weight", "self_attn.q_proj.weight"},
    {"attention.k.weight", "self_attn.k_proj.weight"},
    {"attention.v.weight", "self_attn.v_proj.weight"},
    {"attention.q.bias", "self_attn.q_proj.bias"},
    {"attention.k.bias", "self_attn.k_proj.bias"},
    {"attention.v.bias", "self_attn.v_proj.bias"},
    {"attention.q_norm.weight", "self_attn.q_norm.weight"},
    {"attention.k_norm.weight", "self_attn.k_norm.weight"},
    {"attention.output.weight", "self_attn.o_proj.weight"},
    {"attention.output.bias", "self_attn.o_proj.bias"},
    {"mlp_norm.weight", "post_attention_layernorm.weight"},
    {"mlp.gate.weight", "mlp.gate_proj.weight"},
    {"mlp.up.weight", "mlp.up_proj.weight"},
    {"mlp.down.weight", "mlp.down_proj.weight"},
    {"mlp.gate.bias", "mlp.gate_proj.bias"},
    {"mlp.up.bias", "mlp.up_proj.bias"},
    {"mlp.down.bias", "mlp.down_proj.bias"},
};

HfNames NamesOfLayer(int64_t index) {
  HfNames names;
  for (const auto& [role, name] : kLayerNames) names[role] = Concat("model.layers.", index, ".", name);
  return names;
}

}  // namespace

DecoderSpec CommonDecoder(const HfConfig& config) {
  config.Only("hidden_act", "silu");
  DecoderSpec decoder;
  decoder.norm_eps = config.Number("rms_norm_eps", 1e-6);
  AttentionSpec& attention = decoder.attention;
  attention.hidden = config.Size("hidden_size");
  attention.heads = config.Size("num_attention_heads");
  attention.kv_heads = config.Size("num_key_value_heads", attention.heads);
  if (attention.heads % attention.kv_heads != 0) {
    throw InputError(config.source(), ": num_attention_heads = ", attention.heads,
                     " is no multiple of num_key_value_heads = ", attention.kv_heads);
  }
  attention.head_dim = config.Size("head_dim", attention.hidden / attention.heads);
  attention.norm_eps = decoder.norm_eps;
  attention.rope = config.Rope(attention.head_dim);
  decoder.mlp.hidden = attention.hidden;
  decoder.mlp.ffn = config.Size("intermediate_size");
  return decoder;
}

LayerGraph DecoderGraph(const HfConfig& config, const DecoderSpec& decoder) {
  const int64_t vocabulary = config.Size("vocab_size"), hidden = decoder.attention.hidden;
  LayerGraph graph{.family = config.Text("model_type"),
                   .dtype = config.WeightType(),
                   .initial_deviation = config.Number("initializer_range", 0.02),
                   .layers = {}};
  graph.layers.push_back(
      {"embedding", EmbeddingSpec{vocabulary, hidden}, {{"embedding.weight", "model.embed_tokens.weight"}}});
  const int64_t layers = config.Size("num_hidden_layers");
  for (int64_t index = 0; index < layers; ++index) {
    graph.layers.push_back({Concat("layers.", index), decoder, NamesOfLayer(index)});
  }
  const HeadSpec head{vocabulary, hidden, decoder.norm_eps, config.Flag("tie_word_embeddings", false)};
  graph.layers.push_back(
      {"head", head, {{"norm.weight", "model.norm.weight"}, {"logits.weight", "lm_head.weight"}}});
  return graph;
}

}  // namespace trireme
