// Gemma 1, 2 and 3, text: norms whose weights are added to 1; GELU; an embedding times sqrt(hidden_size), tied to the
// head. Since Gemma 2: norms at both ends of each branch, layers with windows among others. Gemma 2: soft caps of
// scores and logits. Gemma 3: norms of each query and key head, and a rotary embedding of its own in layers with
// windows.
#include <cmath>

#include "core/base/error.h"
#include "models/layer_kinds.h"

namespace trireme {
namespace {

constexpr char kGelu[] = "gelu_pytorch_tanh";

DecoderSpec FirstGemmaDecoder(const HfConfig& config, const CommonTraits& traits) {
  config.Only("hidden_activation", kGelu);
  config.Only("use_bidirectional_attention", false);
  config.Unused({"cache_implementation"});
  DecoderSpec decoder = CommonDecoder(config, traits);
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  decoder.attention.norms = decoder.mlp.norms = {.offset = 1};
  decoder.mlp.activation = MlpSpec::Activation::kGeluTanh;
  return decoder;
}

DecoderSpec GemmaDecoder(const HfConfig& config, const CommonTraits& traits) {
  DecoderSpec decoder = FirstGemmaDecoder(config, traits);
  decoder.attention.scale = 1 / std::sqrt(config.Number("query_pre_attn_scalar", 256));
  decoder.attention.norms.output = decoder.mlp.norms.output = true;
  return decoder;
}

// Of Gemma 2 and 3.
LayerNames GemmaNames() {
  return {{"attention_output_norm.weight", "post_attention_layernorm.weight"},
          {"mlp_norm.weight", "pre_feedforward_layernorm.weight"},
          {"mlp_output_norm.weight", "post_feedforward_layernorm.weight"}};
}

LayerGraph GemmaGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders, const LayerNames& names) {
  LayerGraph graph = DecoderGraph(config, decoders, names);
  auto& embedding = std::get<EmbeddingSpec>(graph.layers.front().spec);
  embedding.scale = std::sqrt(static_cast<double>(embedding.hidden));
  embedding.scale_in_dtype = true;
  auto& head = std::get<HeadSpec>(graph.layers.back().spec);
  head.norm_offset = 1;
  head.tied = config.Flag("tie_word_embeddings", true);
  return graph;
}

// Of a soft cap: null switches it off.
double CapOf(const HfConfig& config, const char* key, double unsaid) {
  const double cap = config.IsNull(key) ? 0 : config.Number(key, unsaid);
  if (cap > 0 || config.IsNull(key)) return cap;
  throw InputError(config.source(), ": ", key, " is ", cap, "; wanted a number above 0, or null");
}

}  // namespace

LayerGraph Gemma(const HfConfig& config) {
  // The first files say gelu and mean its approximation.
  const bool early = config.Has("hidden_act") && config.Text("hidden_act") == "gelu";
  const DecoderSpec decoder = FirstGemmaDecoder(config, {.head_dim = 256, .activation = early ? "gelu" : kGelu});
  return GemmaGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder), {});
}

LayerGraph Gemma2(const HfConfig& config) {
  DecoderSpec decoder = GemmaDecoder(config, {.head_dim = 256, .activation = kGelu});
  decoder.attention.soft_cap = CapOf(config, "attn_logit_softcapping", 50);
  std::vector<DecoderSpec> decoders;
  for (const std::string& kind : KindsOfLayers(config, /*pattern=*/2)) {
    decoders.push_back(decoder);
    if (kind == kSlidingAttention) decoders.back().attention.window = config.Size("sliding_window", 4096);
  }
  config.Unused({"sliding_window"});
  LayerGraph graph = GemmaGraph(config, decoders, GemmaNames());
  std::get<HeadSpec>(graph.layers.back().spec).soft_cap = CapOf(config, "final_logit_softcapping", 30);
  return graph;
}

LayerGraph Gemma3(const HfConfig& config) {
  config.Only("final_logit_softcapping", nullptr);
  config.Only("attn_logit_softcapping", nullptr);
  DecoderSpec decoder = GemmaDecoder(config, {.head_dim = 256, .reads_rope = false, .activation = kGelu});
  decoder.attention.qk_norm = true;
  const LayerKinds kinds{.pattern = config.Size("sliding_window_pattern", 6), .full_theta = 1e6, .sliding_theta = 1e4};
  return GemmaGraph(config, LayersByKind(config, decoder, kinds), GemmaNames());
}

}  // namespace trireme
