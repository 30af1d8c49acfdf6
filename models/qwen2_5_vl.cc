// Qwen2.5-VL: Qwen2 with positions in three dimensions, and a vision tower of RMSNorm and gated mlps, most of whose
// layers attend within windows.
#include <algorithm>

#include "core/base/error.h"
#include "models/seeing.h"

namespace trireme {
namespace {

const LayerNames kGatedBlockNames = {
    {"mlp.gate.weight", "mlp.gate_proj.weight"}, {"mlp.up.weight", "mlp.up_proj.weight"},
    {"mlp.down.weight", "mlp.down_proj.weight"}, {"mlp.gate.bias", "mlp.gate_proj.bias"},
    {"mlp.up.bias", "mlp.up_proj.bias"},         {"mlp.down.bias", "mlp.down_proj.bias"}};
const LayerNames kGatedMergerNames = {{"norm.weight", "ln_q.weight"},
                                      {"fc1.weight", "mlp.0.weight"},
                                      {"fc1.bias", "mlp.0.bias"},
                                      {"fc2.weight", "mlp.2.weight"},
                                      {"fc2.bias", "mlp.2.bias"}};

std::vector<Layer> WindowedTower(const HfConfig& vision, int64_t text_hidden) {
  vision.Only("hidden_act", "silu");
  SeeingTower read = ReadTower(vision, text_hidden);
  const int64_t pixels = vision.Size("window_size", 112), token = read.tower.merge * read.kernel.back();
  if (pixels % token != 0) {
    throw InputError(vision.source(), ": window_size = ", pixels, "; wanted a multiple of a token's ", token,
                     " pixels (patch_size · spatial_merge_size)");
  }
  read.tower.window = pixels / token;
  const std::vector<int64_t> full = vision.Has("fullatt_block_indexes") ? vision.Integers("fullatt_block_indexes")
                                                                        : std::vector<int64_t>{7, 15, 23, 31};
  std::vector<Layer> layers = {
      {"vision.patch", PatchSpec{read.tower, read.kernel}, {{"patch.weight", "visual.patch_embed.proj.weight"}}}};
  for (int64_t i = 0; i < read.depth; ++i) {
    layers.push_back({Concat("vision.", i),
                      VisionSpec{.tower = read.tower,
                                 .heads = read.heads,
                                 .ffn = read.ffn,
                                 .gated = true,
                                 .windowed = std::find(full.begin(), full.end(), i) == full.end()},
                      TowerLayerNames(Concat("visual.blocks.", i, "."), kGatedBlockNames)});
  }
  layers.push_back({"vision.merger", MergerSpec{.tower = read.tower, .outputs = read.outputs},
                    TowerNames("visual.merger.", kGatedMergerNames)});
  return layers;
}

}  // namespace

LayerGraph Qwen2_5_VL(const HfConfig& config) {
  const SeeingText text = TextOf(config, TiedBy::kEither, {});
  DecoderSpec decoder = CommonDecoder(text.config, {.norm_eps = 1e-5, .theta = 1e6});
  decoder.attention.qkv_bias = true;
  text.sections.Apply(decoder.attention.rope, config.source());
  LayerGraph graph = DecoderGraph(text.config, WindowedLayers(text.config, decoder));
  const HfConfig vision = config.Within("vision_config");
  AddTower(graph, WindowedTower(vision, decoder.attention.hidden), 0, config);
  vision.RefuseUnread();
  text.config.RefuseUnread();
  return graph;
}

}  // namespace trireme
