// Qwen3.5, dense and with experts: Qwen3-Next's layers, whose projections files do not fuse. Its text models, and the
// whole ones, with positions in three dimensions and Qwen3-VL's vision tower without deepstack.
#include "models/delta_layers.h"
#include "models/gelu_tower.h"

namespace trireme {
namespace {

constexpr CommonTraits kTextTraits{.head_dim = 256, .rotary_factor = 0.25, .sections = true};
const RopeSections kDeltaSections{.sizes = {11, 11, 10}, .interleaved = true};  // transformers' default

using LayersOf = std::vector<DecoderSpec> (*)(const HfConfig&);

std::vector<DecoderSpec> DenseLayers(const HfConfig& config) {
  return DeltaLayers(config, kTextTraits, /*fused=*/false);
}

std::vector<DecoderSpec> ExpertLayers(const HfConfig& config) {
  config.Only("mlp_only_layers", Json::array());
  CommonTraits traits = kTextTraits;
  traits.ffn = config.Size("moe_intermediate_size", 512);  // of no layer: all have experts
  std::vector<DecoderSpec> decoders = DeltaLayers(config, traits, /*fused=*/false);
  ExpertsSpec experts = GatedExperts(config, decoders.front().attention.hidden);
  experts.router.normalise = true;
  for (DecoderSpec& decoder : decoders) decoder.experts = experts;
  return decoders;
}

LayerGraph GraphOf(const HfConfig& config, LayersOf layers) {
  if (!config.Has("vision_config")) return DeltaGraph(config, layers(config));
  config.Size("image_token_id");
  const SeeingText text = TextOf(config, TiedBy::kRoot, kDeltaSections);
  std::vector<DecoderSpec> decoders = layers(text.config);
  for (DecoderSpec& decoder : decoders) text.sections.Apply(decoder.attention.rope, text.config.source());
  LayerGraph graph = WithGeluTower(DeltaGraph(text.config, decoders), config, /*deepstack=*/false);
  text.config.RefuseUnread();
  return graph;
}

}  // namespace

LayerGraph Qwen3_5(const HfConfig& config) { return GraphOf(config, DenseLayers); }  // NOLINT: as transformers names it

LayerGraph Qwen3_5Moe(const HfConfig& config) {
  return GraphOf(config, ExpertLayers);
}  // NOLINT: as transformers names it

}  // namespace trireme
