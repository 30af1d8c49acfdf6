// Sliding windows over attention tiles: a query attends to its last `window` keys only, its own among them; and soft
// caps of their scores. Plain numbers; what a window hides is cut off before anything is computed.
#pragma once

#include "ops/attention/attention_tile.h"

namespace trireme {

// The tile without queries that attend to none of its keys and without keys that no query attends to; empty (no
// queries, no keys) if nothing is left. A window that hides nothing is dropped.
AttentionTile Trimmed(AttentionTile tile);

// The tiles under a window; 0: as they are.
RowTiles Windowed(const RowTiles& tiles, int64_t window);

// The tiles with a soft cap of their scores; 0: as they are.
RowTiles Capped(RowTiles tiles, double soft_cap);
// Whether they have one: all or none.
bool AreCapped(const RowTiles& tiles);

}  // namespace trireme
