// TowerTables: a pass's TowerPlan as tensors on the device of its patches, made once for all layers of the tower.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/rotary/rotary.h"
#include "parallel/layers/kept_features.h"
#include "parallel/pass/pass_context.h"
#include "parallel/pass/tower_plan.h"

namespace trireme {

struct TowerTables {
  TowerPlan plan;                // of the images that the tower runs on
  std::vector<size_t> run = {};  // these, by index
  at::Tensor order = {};         // [patches] int64
  at::Tensor token_order = {};   // [tokens] int64
  // [states, head_dim / 2]: the first half of the pairs turns by the row, the other by the column; none does in tiles.
  RotaryTable rotary = {};
  at::Tensor corners = {};  // [4 · patches] int64; undefined: the tower has no table of positions
  at::Tensor shares = {};   // [4 · patches, 1] fp32
  at::Tensor tile_places =
      {};  // [1 + patches of a tile] int64: the class token's position and theirs; undefined: no tiles
};

// Made by the tower's first layer, which names the features that are kept; nullptr: it runs on all images.
const TowerTables& TowerTablesOf(PassContext& pass, const TowerSpec& tower, const KeptFeatures* kept = nullptr);

}  // namespace trireme
