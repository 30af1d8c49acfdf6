// The size of the engine's cache, for plans and limits. No torch.
#pragma once

#include <cstdint>

#include "core/config.pb.h"
#include "core/plan/grids.h"
#include "parallel/graph/graph.h"

namespace trireme {

constexpr int64_t kCacheBlock = 32;  // tokens whose keys and values are kept together

// Bytes of keys and values that a rank caches per token.
int64_t CacheBytesPerToken(const LayerGraph& graph, const Config& config, const Grids& grids);

// Bytes that a rank keeps of each row, however long it is: the states of Gated DeltaNet, and the last inputs of its
// convolutions.
int64_t StateBytesPerRow(const LayerGraph& graph, const Config& config, const Grids& grids);

}  // namespace trireme
