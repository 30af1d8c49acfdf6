// MiniCPM and MiniCPM3: factors for the embedding, what is added to the residual stream, and the logits; Llama's
// layers, or latent attention with a dense mlp. Layers with experts and sparse attention (MiniCPM-MoE, sparse_config)
// are refused as keys that nothing reads.
#include <cmath>

#include "core/base/error.h"
#include "models/latent_decoder.h"

namespace trireme {
namespace {

// Published code and transformers have different defaults.
double FactorOf(const HfConfig& config, const char* key) {
  const double factor = config.Number(key, 0);
  if (factor > 0) return factor;
  throw InputError(config.source(), ": ", key, " is ", config.Has(key) ? Concat(factor) : "missing",
                   "; wanted a number above 0");
}

LayerGraph ScaledGraph(const HfConfig& config, DecoderSpec decoder, const LayerNames& names) {
  const auto layers = static_cast<size_t>(config.Size("num_hidden_layers"));
  decoder.branch_scale = FactorOf(config, "scale_depth") / std::sqrt(static_cast<double>(layers));
  LayerGraph graph = DecoderGraph(config, std::vector<DecoderSpec>(layers, decoder), names);
  std::get<EmbeddingSpec>(graph.layers.front().spec).scale = FactorOf(config, "scale_emb");
  auto& head = std::get<HeadSpec>(graph.layers.back().spec);
  head.logit_scale = FactorOf(config, "dim_model_base") / static_cast<double>(head.hidden);
  head.tied = config.Flag("tie_word_embeddings", true);
  return graph;
}

}  // namespace

LayerGraph MiniCPM(const HfConfig& config) {
  config.Only("mlp_bias", false);
  config.Unused({"mup_denominator"});  // of decoding heads in files of their own
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qkv_bias = decoder.attention.output_bias = config.Flag("attention_bias", false);
  return ScaledGraph(config, decoder, {});
}

LayerGraph MiniCPM3(const HfConfig& config) {
  const int64_t head_dim = config.Size("hidden_size") / config.Size("num_attention_heads");
  return ScaledGraph(config, LatentDecoder(config, {.interleaved = false, .value_dim = head_dim}), LatentNames());
}

}  // namespace trireme
