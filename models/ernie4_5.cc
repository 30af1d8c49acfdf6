// ERNIE 4.5, dense and with experts: Llama's layers whose rotary embedding rotates adjacent elements; biases everywhere
// or nowhere. With experts: a softmax over all of them with a correction bias for the choice, and shared experts.
#include <algorithm>

#include "core/base/error.h"
#include "models/routed_experts.h"

namespace trireme {
namespace {

DecoderSpec ErnieDecoder(const HfConfig& config, int64_t head_dim) {
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1e-5, .head_dim = head_dim, .theta = 5e5});
  decoder.attention.interleaved = true;
  return decoder;
}

LayerGraph ErnieGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders, const LayerNames& names) {
  LayerGraph graph = DecoderGraph(config, decoders, names);
  std::get<HeadSpec>(graph.layers.back().spec).tied = config.Flag("tie_word_embeddings", true);
  return graph;
}

ExpertsSpec ErnieExperts(const HfConfig& config, int64_t hidden) {
  config.Only("moe_norm_min", 1e-12);  // the weights' sum is never below it
  config.Only("moe_use_aux_free", true);
  config.Only("moe_gate", "topk");
  config.Unused({"moe_capacity"});  // of training code
  ExpertsSpec experts{.router = {.experts = config.Size("moe_num_experts", 64),
                                 .top_k = config.Size("moe_k", 6),
                                 .correction_bias = true,
                                 .normalise = true},
                      .hidden = hidden,
                      .ffn = config.Size("moe_intermediate_size", 1536),
                      .bias_in_row = true};
  experts.shared_ffn = std::max<int64_t>(config.WholeNumber("moe_num_shared_experts").value_or(2), 0) * experts.ffn;
  if (experts.router.top_k > experts.router.experts) {
    throw InputError(config.source(), ": moe_k = ", experts.router.top_k,
                     " is more than moe_num_experts = ", experts.router.experts);
  }
  return experts;
}

}  // namespace

LayerGraph Ernie4_5(const HfConfig& config) {
  DecoderSpec decoder = ErnieDecoder(config, 128);
  decoder.attention.qkv_bias = config.Flag("use_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  decoder.mlp.bias = decoder.attention.qkv_bias;
  return ErnieGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder), {});
}

LayerGraph Ernie4_5_Moe(const HfConfig& config) {
  config.Only("use_bias", false);  // of experts, and of the head
  const DecoderSpec decoder = ErnieDecoder(config, 0);
  const ExpertsSpec experts = ErnieExperts(config, decoder.attention.hidden);
  const int64_t layers = config.Size("num_hidden_layers"), interval = config.Size("moe_layer_interval", 1);
  const int64_t first = config.WholeNumber("moe_layer_start_index").value_or(1);
  const int64_t said = config.WholeNumber("moe_layer_end_index").value_or(-1), last = said == -1 ? layers - 1 : said;
  std::vector<DecoderSpec> decoders(layers, decoder);
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (layer >= first && layer <= last && (layer + 1) % interval == 0) decoders[layer].experts = experts;
  }
  LayerNames names = SharedExpertsNames();
  names.emplace_back("router.bias", "mlp.moe_statics.e_score_correction_bias");
  LayerGraph graph = ErnieGraph(config, decoders, names);
  if (config.WholeNumber("num_nextn_predict_layers").value_or(0) > 0) graph.unused.emplace_back("model.mtp_");
  return graph;
}

}  // namespace trireme
