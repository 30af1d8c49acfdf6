// Attention both ways within tiles, as a vision tower has it: every query of a tile attends to all of its keys. On one
// rank: what ranks split are heads.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention_tiles.h"

namespace trireme {

// heads: a single row. Returns [length, heads · head_dim]; scores are divided by √head_dim. Each query is in one tile.
at::Tensor TwoWayAttention(const Heads& heads, const RowTiles& tiles);

}  // namespace trireme
