// LayerElements: what each layer's parameters are on one rank of a split. Counted once for all layouts with that split:
// a layer with hundreds of experts has thousands of names.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/grids.h"
#include "parallel/graph/parameters.h"

namespace trireme {

struct LayerElements {
  using OfLayers = std::vector<int64_t>;
  std::vector<size_t> like;                // for each layer the first one that is alike
  std::array<OfLayers, 2> dense, experts;  // [trained] elements on each grid, without those that are packed
  std::array<OfLayers, 2> packed;          // [dense, experts] bytes of those that are packed
};

// `grids` may have more ranks than the split.
LayerElements CountElements(const LayerGraph& graph, const TensorSplit& split, const Grids& grids);

}  // namespace trireme
