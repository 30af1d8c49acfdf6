#include "models/decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "models/padding_row.h"

namespace trireme {
namespace {

// Role to name below "model.layers.N."; names that a family does not have are never looked up.
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
    {"router.weight", "mlp.gate.weight"},
    {"experts.gate.weight", "mlp.experts.{expert}.gate_proj.weight"},
    {"experts.up.weight", "mlp.experts.{expert}.up_proj.weight"},
    {"experts.down.weight", "mlp.experts.{expert}.down_proj.weight"},
    {"shared.gate.weight", "mlp.shared_expert.gate_proj.weight"},
    {"shared.up.weight", "mlp.shared_expert.up_proj.weight"},
    {"shared.down.weight", "mlp.shared_expert.down_proj.weight"},
    {"shared_gate.weight", "mlp.shared_expert_gate.weight"},
};

// Additional names of an mtp layer; the last two are copies.
constexpr std::pair<const char*, const char*> kMtpNames[] = {
    {"embedding_norm.weight", "enorm.weight"},   {"hidden_norm.weight", "hnorm.weight"},
    {"join.weight", "eh_proj.weight"},           {"norm.weight", "shared_head.norm.weight"},
    {"embedding.weight", "embed_tokens.weight"}, {"logits.weight", "shared_head.head.weight"},
};

HfNames NamesOfLayer(size_t index, const LayerNames& of_family) {
  HfNames names;
  for (const auto& [role, name] : kLayerNames) names[role] = Concat("model.layers.", index, ".", name);
  for (const auto& [role, name] : of_family) {
    if (*name == 0) {
      names.erase(role);
    } else {
      names[role] = Concat("model.layers.", index, ".", name);
    }
  }
  return names;
}

RopeSpec RopeOf(const HfConfig& config, int64_t head_dim, const CommonTraits& traits) {
  const double factor = traits.rotary_factor ? config.RotaryFactor(*traits.rotary_factor) : 1;
  const auto rotary_dim = static_cast<int64_t>(factor * static_cast<double>(head_dim));
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    throw InputError(config.source(), ": partial_rotary_factor = ", factor, " rotates ", rotary_dim, " of the ",
                     head_dim, " elements of a head; wanted an even number of them");
  }
  return config.Rope(rotary_dim, {.factor = factor,
                                  .theta = traits.theta,
                                  .ntk_alpha = traits.ntk_alpha,
                                  .phi3 = traits.phi3_rope,
                                  .sections = traits.sections});
}

}  // namespace

DecoderSpec CommonDecoder(const HfConfig& config, const CommonTraits& traits) {
  config.Only("hidden_act", traits.activation);
  if (traits.reads_dropout) config.Only("attention_dropout", 0.0);
  config.Only("use_mrope", false);
  config.Only("output_router_logits",
              false);  // would add an auxiliary loss, which run.yaml's section moe decides about
  config.Only("router_jitter_noise", 0.0);
  DecoderSpec decoder;
  decoder.norm_eps = config.Number("rms_norm_eps", traits.norm_eps);
  AttentionSpec& attention = decoder.attention;
  attention.hidden = config.Size("hidden_size");
  attention.heads = config.Size("num_attention_heads");
  attention.kv_heads = config.Size("num_key_value_heads", attention.heads);
  if (attention.heads % attention.kv_heads != 0) {
    throw InputError(config.source(), ": num_attention_heads = ", attention.heads,
                     " is not a multiple of num_key_value_heads = ", attention.kv_heads);
  }
  attention.head_dim =
      config.Size("head_dim", traits.head_dim > 0 ? traits.head_dim : attention.hidden / attention.heads);
  attention.norm_eps = decoder.norm_eps;
  if (traits.reads_rope) attention.rope = RopeOf(config, attention.head_dim, traits);
  decoder.mlp.hidden = attention.hidden;
  decoder.mlp.ffn = traits.ffn > 0 ? config.Size("intermediate_size", traits.ffn) : config.Size("intermediate_size");
  return decoder;
}

LayerNames OutputNormNames() {
  return {{"attention_norm.weight", ""},
          {"mlp_norm.weight", ""},
          {"attention_output_norm.weight", "post_attention_layernorm.weight"},
          {"mlp_output_norm.weight", "post_feedforward_layernorm.weight"}};
}

std::vector<DecoderSpec> WindowedLayers(const HfConfig& config, const DecoderSpec& decoder) {
  constexpr int64_t kUnsaidWindow = 4096, kUnsaidLayers = 28;  // transformers' defaults
  const bool slides = config.Flag("use_sliding_window", false) && !config.IsNull("sliding_window");
  const int64_t window = config.Size("sliding_window", kUnsaidWindow);
  const int64_t full = config.WholeNumber("max_window_layers").value_or(kUnsaidLayers);
  std::vector<DecoderSpec> decoders(config.Size("num_hidden_layers"), decoder);
  const std::vector<std::string> kinds = config.Texts("layer_types");
  if (!kinds.empty() && kinds.size() != decoders.size()) {
    throw InputError(config.source(), ": layer_types has ", kinds.size(), " entries; num_hidden_layers is ",
                     decoders.size());
  }
  for (size_t layer = 0; layer < decoders.size(); ++layer) {
    const bool late = slides && static_cast<int64_t>(layer) >= full;
    const std::string kind = kinds.empty() ? (late ? "sliding_attention" : "full_attention") : kinds[layer];
    if (kind == "full_attention") continue;
    if (kind != "sliding_attention" || !slides) {
      throw InputError(config.source(), ": layer_types has '", kind, "' for layer ", layer, "; wanted full_attention",
                       slides ? " or sliding_attention" : ", or use_sliding_window: true with a sliding_window");
    }
    decoders[layer].attention.window = window;
  }
  return decoders;
}

std::vector<DecoderSpec> SparseLayers(const HfConfig& config, const DecoderSpec& dense, const ExpertsSpec& experts) {
  const int64_t step = config.Size("decoder_sparse_step", 1);
  const std::vector<int64_t> dense_only = config.Integers("mlp_only_layers");
  std::vector<DecoderSpec> decoders(config.Size("num_hidden_layers"), dense);
  for (size_t layer = 0; layer < decoders.size(); ++layer) {
    const auto index = static_cast<int64_t>(layer);
    const bool plain = std::find(dense_only.begin(), dense_only.end(), index) != dense_only.end();
    if (!plain && (index + 1) % step == 0) decoders[layer].experts = experts;
  }
  return decoders;
}

void RefuseWindows(const HfConfig& config) {
  config.Only("use_sliding_window", false);
  config.Unused({"sliding_window", "max_window_layers"});
  for (const std::string& kind : config.Texts("layer_types")) {
    if (kind == "full_attention") continue;
    throw InputError(config.source(), ": layer_types has '", kind, "'; only full_attention is supported");
  }
}

ExpertsSpec CommonExperts(const HfConfig& config, int64_t hidden) {
  const char* key = config.Has("num_experts") ? "num_experts" : "num_local_experts";
  ExpertsSpec experts{.router = {.experts = config.Size(key), .top_k = config.Size("num_experts_per_tok")},
                      .hidden = hidden};
  if (experts.router.top_k > experts.router.experts) {
    throw InputError(config.source(), ": num_experts_per_tok = ", experts.router.top_k, " is more than ", key, " = ",
                     experts.router.experts);
  }
  return experts;
}

Layer MtpLayer(size_t index, int64_t depth, const DecoderSpec& decoder, const LayerNames& names) {
  LayerNames all = names;
  for (const auto& own : kMtpNames) all.emplace_back(own);
  return {Concat("mtp.", depth), MtpSpec{decoder, depth}, NamesOfLayer(index, all)};
}

LayerGraph DecoderGraph(const HfConfig& config, const DecoderSpec& decoder) {
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder));
}

LayerGraph DecoderGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders, const LayerNames& names) {
  const DecoderSpec& first = decoders.front();
  const int64_t vocabulary = config.Size("vocab_size"), hidden = first.attention.hidden;
  LayerGraph graph{.family = config.Text("model_type"),
                   .dtype = config.WeightType(),
                   .initial_deviation = config.Number("initializer_range", 0.02),
                   .layers = {}};
  const EmbeddingSpec embedding{
      .vocabulary = vocabulary, .hidden = hidden, .padding = PaddingRow(config, graph.family, vocabulary)};
  graph.layers.push_back({"embedding", embedding, {{"embedding.weight", "model.embed_tokens.weight"}}});
  for (size_t index = 0; index < decoders.size(); ++index) {
    graph.layers.push_back({Concat("layers.", index), decoders[index], NamesOfLayer(index, names)});
  }
  const HeadSpec head{vocabulary, hidden, first.norm_eps, config.Flag("tie_word_embeddings", false)};
  graph.layers.push_back({"head", head, {{"norm.weight", "model.norm.weight"}, {"logits.weight", "lm_head.weight"}}});
  return graph;
}

}  // namespace trireme
