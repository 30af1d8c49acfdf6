#include "models/gelu_tower.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kVisual[] = "model.visual.";

const LayerNames kGeluBlockNames = {
    {"attention_norm.bias", "norm1.bias"},       {"mlp_norm.bias", "norm2.bias"},
    {"mlp.fc1.weight", "mlp.linear_fc1.weight"}, {"mlp.fc1.bias", "mlp.linear_fc1.bias"},
    {"mlp.fc2.weight", "mlp.linear_fc2.weight"}, {"mlp.fc2.bias", "mlp.linear_fc2.bias"}};

HfNames MergerNames(int64_t taps) {
  HfNames names;
  for (int64_t i = 0; i <= taps; ++i) {
    const std::string role = i == 0 ? "" : Concat("tap", i - 1, ".");
    const std::string module =
        i == 0 ? Concat(kVisual, "merger.") : Concat(kVisual, "deepstack_merger_list.", i - 1, ".");
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

}  // namespace

LayerGraph WithGeluTower(LayerGraph graph, const HfConfig& config, bool deepstack) {
  const HfConfig vision = config.Within("vision_config");
  vision.Only("hidden_act", "gelu_pytorch_tanh");
  SeeingTower read = ReadTower(vision, HiddenOf(graph));
  read.tower.table_side = TableSide(vision);
  if (!deepstack) vision.Only("deepstack_visual_indexes", Json::array());
  const std::vector<int64_t> taps = deepstack ? TapsOf(vision, read.depth) : std::vector<int64_t>{};
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

}  // namespace trireme
