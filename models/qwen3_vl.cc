// Qwen3-VL, dense and with experts: Qwen3 with positions in three dimensions, and a vision tower of LayerNorm and GELU
// with learned positions; features of some of its layers are added to the outputs of the first decoder layers
// (deepstack).
#include "models/gelu_tower.h"

namespace trireme {
namespace {

const RopeSections kInterleavedSections{.sizes = {24, 20, 20}, .interleaved = true};  // transformers' default

DecoderSpec SeeingDecoder(const SeeingText& text, int64_t head_dim) {
  DecoderSpec decoder = CommonDecoder(text.config, {.head_dim = head_dim, .theta = 5e5});
  decoder.attention.qk_norm = true;
  decoder.attention.qkv_bias = text.config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  text.sections.Apply(decoder.attention.rope, text.config.source());
  return decoder;
}

}  // namespace

LayerGraph Qwen3VL(const HfConfig& config) {
  const SeeingText text = TextOf(config, TiedBy::kRoot, kInterleavedSections);
  RefuseWindows(text.config);
  const DecoderSpec decoder = SeeingDecoder(text, /*head_dim=*/128);
  LayerGraph graph = WithGeluTower(DecoderGraph(text.config, decoder), config, /*deepstack=*/true);
  text.config.RefuseUnread();
  return graph;
}

// The weights of the chosen experts are always renormalised. Files hold all experts of a layer in two tensors.
LayerGraph Qwen3VLMoe(const HfConfig& config) {
  const SeeingText text = TextOf(config, TiedBy::kRoot, kInterleavedSections);
  RefuseWindows(text.config);
  text.config.Only("norm_topk_prob", true);
  const DecoderSpec decoder = SeeingDecoder(text, /*head_dim=*/0);
  ExpertsSpec experts = CommonExperts(text.config, decoder.attention.hidden);
  experts.ffn = text.config.Size("moe_intermediate_size");
  experts.router.normalise = true;
  const LayerNames stacked = {{"experts.gate.weight", "mlp.experts.gate_up_proj"},
                              {"experts.up.weight", "mlp.experts.gate_up_proj"},
                              {"experts.down.weight", "mlp.experts.down_proj"}};
  LayerGraph graph =
      WithGeluTower(DecoderGraph(text.config, SparseLayers(text.config, decoder, experts), stacked), config,
                    /*deepstack=*/true);
  text.config.RefuseUnread();
  return graph;
}

}  // namespace trireme
