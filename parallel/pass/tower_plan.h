// TowerPlan: what a vision tower needs to know of a micro batch's images beside their pixels, from their grids alone:
// the order of the patches, where they are in their image, which of them attend to each other, and how the table of
// learned positions is interpolated. Plain numbers, no torch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention/attention_tile.h"
#include "parallel/graph/specs.h"
#include "parallel/pass/image_positions.h"

namespace trireme {

// Patches come frame by frame, in blocks of merge · merge that become a token. A tower with windows works on another
// order of these blocks, in which each window is contiguous; without windows the two orders are the same. All members
// but token_order are in the tower's order. Where images are cut into tiles, hidden states of class tokens stand
// between those of patches: before the first one of each tile.
struct TowerPlan {
  std::vector<int64_t> order = {};        // [patches] which patch of the input each one is
  std::vector<int64_t> token_order = {};  // [tokens] where the tower has each token of the images
  std::vector<int64_t> rows = {};         // [patches] in its frame
  std::vector<int64_t> columns = {};
  int64_t states = 0;     // hidden states: patches and class tokens
  RowTiles frames = {};   // a single row of tiles, in hidden states: the patches of a frame attend to each other
  RowTiles windows = {};  // those of a window
  // The four corners of the table's cell that each patch is in, and what each counts; empty: the tower has no table.
  std::vector<std::array<int64_t, 4>> corners = {};
  std::vector<std::array<float, 4>> shares = {};

  int64_t patches() const { return static_cast<int64_t>(order.size()); }
};

TowerPlan PlanTower(const TowerSpec& tower, std::span<const ImageGrid> grids);

}  // namespace trireme
