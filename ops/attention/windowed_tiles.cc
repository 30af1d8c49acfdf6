#include "ops/attention/windowed_tiles.h"

#include <algorithm>

namespace trireme {

AttentionTile Trimmed(AttentionTile tile) {
  if (tile.first < 0) {  // the first queries come before all keys
    tile.query -= tile.first;
    tile.queries += tile.first;
    tile.first = 0;
  }
  tile.keys = std::min(tile.keys, tile.first + tile.queries);
  if (tile.window > 0) {
    tile.queries = std::min(tile.queries, tile.keys - tile.first + tile.window - 1);
    const int64_t hidden = std::max<int64_t>(tile.first - tile.window + 1, 0);  // from the first query, so from all
    tile.key += hidden;
    tile.keys -= hidden;
    tile.first -= hidden;
    if (tile.first + tile.queries <= tile.window) tile.window = 0;
  }
  return tile.queries > 0 && tile.keys > 0 ? tile : AttentionTile{};
}

RowTiles Windowed(const RowTiles& tiles, int64_t window) {
  if (window == 0) return tiles;
  RowTiles windowed;
  for (const std::vector<AttentionTile>& row : tiles) {
    std::vector<AttentionTile>& own = windowed.emplace_back();
    for (AttentionTile tile : row) {
      tile.window = window;
      tile = Trimmed(tile);
      if (tile.queries > 0) own.push_back(tile);
    }
  }
  return windowed;
}

RowTiles Capped(RowTiles tiles, double soft_cap) {
  for (std::vector<AttentionTile>& row : tiles) {
    for (AttentionTile& tile : row) tile.soft_cap = static_cast<float>(soft_cap);
  }
  return tiles;
}

bool AreCapped(const RowTiles& tiles) {
  return std::ranges::any_of(tiles, [](const std::vector<AttentionTile>& row) {
    return std::ranges::any_of(row, [](const AttentionTile& tile) { return tile.soft_cap > 0; });
  });
}

}  // namespace trireme
