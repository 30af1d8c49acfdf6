// TowerTables: a pass's TowerPlan as tensors on the device of its patches, made once for all layers of the tower.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/rotary/rotary.h"
#include "parallel/pass/pass_context.h"
#include "parallel/pass/tower_plan.h"

namespace trireme {

struct TowerTables {
  TowerPlan plan;
  at::Tensor order = {};        // [patches] int64
  at::Tensor token_order = {};  // [tokens] int64
  RotaryTable rotary = {};      // [patches, head_dim / 2]: the first half of the pairs turns by the row, the other by the column
  at::Tensor corners = {};      // [4 · patches] int64; undefined: the tower has no table of positions
  at::Tensor shares = {};       // [4 · patches, 1] fp32
};

const TowerTables& TowerTablesOf(PassContext& pass, const TowerSpec& tower);

}  // namespace trireme
