// The new tokens of a generation step against each row's cached ones, as tiles. Integers only.
#pragma once

#include "ops/attention/attention_tile.h"
#include "ops/attention/cached_attention.h"

namespace trireme {

RowTiles TilesOf(const CachedRows& rows);

}  // namespace trireme
