// Qwen3-VL, dense and with experts: Qwen3 with positions in three dimensions, and a vision tower of LayerNorm and GELU with
// learned positions; features of some of its layers are added to the outputs of the first decoder layers (deepstack).
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "models/seeing.h"

namespace trireme {
namespace {

const RopeSections kInterleavedSections{.sizes = {24, 20, 20}, .interleaved = true};  // transformers' default
constexpr char kVisual[] = "model.visual.";

const LayerNames kGeluBlockNames = {{"attention_norm.bias", "norm1.bias"},
                                    {"mlp_norm.bias", "norm2.bias"},
                                    {"mlp.fc1.weight", "mlp.linear_fc1.weight"},
                                    {"mlp.fc1.bias", "mlp.linear_fc1.bias"},
                                    {"mlp.fc2.weight", "mlp.linear_fc2.weight"},
                                    {"mlp.fc2.bias", "mlp.linear_fc2.bias"}};

HfNames MergerNames(int64_t taps) {
  HfNames names;
  for (int64_t i = 0; i <= taps; ++i) {
    const std::string role = i == 0 ? "" : Concat("tap", i - 1, ".");
    const std::string module = i == 0 ? Concat(kVisual, "merger.") : Concat(kVisual, "deepstack_merger_list.", i - 1, ".");
    for (const char* kind : {".weight", ".bias"}) {
      names[role + "norm" + kind] = module + "norm" + kind;
      names[role + "fc1" + kind] = module + "linear_fc1" + kind;
      names[role + "fc2" + kind] = module + "linear_fc2" + kind;
    }
  }
  return names;
}

// The tapped layers, in ascending order, each once.
std::vector<int64_t> TapsOf(const HfConfig& vision, int64_t depth) {
  const std::vector<int64_t> taps = vision.Has("deepstack_visual_indexes") ? vision.Integers("deepstack_visual_indexes")
                                                                           : std::vector<int64_t>{8, 16, 24};
  const bool ascends = std::adjacent_find(taps.begin(), taps.end(), std::greater_equal<>()) == taps.end();
  if (!ascends || (!taps.empty() && (taps.front() < 0 || taps.back() >= depth))) {
    throw InputError(vision.source(), ": deepstack_visual_indexes: wanted ascending indices of the ", depth, " layers");
  }
  return taps;
}

int64_t TableSide(const HfConfig& vision) {
  const int64_t positions = vision.Size("num_position_embeddings", 2304);
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(positions))));
  if (side * side == positions) return side;
  throw InputError(vision.source(), ": num_position_embeddings = ", positions, " is no square number");
}

LayerGraph WithTower(LayerGraph graph, const HfConfig& config) {
  const HfConfig vision = config.Within("vision_config");
  vision.Only("hidden_act", "gelu_pytorch_tanh");
  SeeingTower read = ReadTower(vision, HiddenOf(graph));
  read.tower.table_side = TableSide(vision);
  const std::vector<int64_t> taps = TapsOf(vision, read.depth);
  std::vector<Layer> layers = {{"vision.patch", PatchSpec{read.tower, read.kernel, /*bias=*/true},
                                TowerNames(kVisual, {{"patch.weight", "patch_embed.proj.weight"},
                                                     {"patch.bias", "patch_embed.proj.bias"},
                                                     {"positions.weight", "pos_embed.weight"}})}};
  for (int64_t i = 0; i < read.depth; ++i) {
    layers.push_back({Concat("vision.", i),
                      VisionSpec{.tower = read.tower,
                                 .heads = read.heads,
                                 .ffn = read.ffn,
                                 .layer_norm = true,
                                 .tapped = std::find(taps.begin(), taps.end(), i) != taps.end()},
                      TowerLayerNames(Concat(kVisual, "blocks.", i, "."), kGeluBlockNames)});
  }
  const auto count = static_cast<int64_t>(taps.size());
  layers.push_back({"vision.merger",
                    MergerSpec{.tower = read.tower, .outputs = read.outputs, .layer_norm = true, .taps = count},
                    MergerNames(count)});
  MoveNames(graph, "model.", "model.language_model.");
  AddTower(graph, std::move(layers), count, config);
  vision.RefuseUnread();
  return graph;
}

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
  LayerGraph graph = WithTower(DecoderGraph(text.config, decoder), config);
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
  LayerGraph graph = WithTower(DecoderGraph(text.config, SparseLayers(text.config, decoder, experts), stacked), config);
  text.config.RefuseUnread();
  return graph;
}

}  // namespace trireme
