// AttentionTile: queries and the keys they see, as numbers. ops/attention_tiles.h computes it.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

// Queries [query, query + queries) of a row against keys [key, key + keys): the i-th of the queries sees the
// first first + i + 1 of the keys.
struct AttentionTile {
  int64_t query = 0;
  int64_t queries = 0;
  int64_t key = 0;
  int64_t keys = 0;
  int64_t first = 0;
  bool operator==(const AttentionTile&) const = default;
};
using RowTiles = std::vector<std::vector<AttentionTile>>;  // one list a row

}  // namespace trireme
