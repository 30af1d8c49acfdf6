// Sliding windows over attention tiles: a query attends to its last `window` keys only, its own among them. Integers
// only; what a window hides is cut off before anything is computed.
#pragma once

#include "ops/attention/attention_tile.h"

namespace trireme {

// The tile without queries that attend to none of its keys and without keys that no query attends to; empty (no queries,
// no keys) if nothing is left. A window that hides nothing is dropped.
AttentionTile Trimmed(AttentionTile tile);

// The tiles under a window; 0: as they are.
RowTiles Windowed(const RowTiles& tiles, int64_t window);

}  // namespace trireme
