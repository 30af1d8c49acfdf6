// AttentionTile: queries and the keys they attend to, as integers. ops/attention/attention_tiles.h computes
// it.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

// Queries [query, query + queries) of a row against keys [key, key + keys): query i attends to the first
// first + i + 1 keys; with a window only to the last `window` of those. With a soft cap a score s is
// cap · tanh(s / cap).
struct AttentionTile {
  int64_t query = 0;
  int64_t queries = 0;
  int64_t key = 0;
  int64_t keys = 0;
  int64_t first = 0;
  int64_t window = 0;  // 0: none
  float soft_cap = 0;  // 0: none
  bool operator==(const AttentionTile&) const = default;
};
using RowTiles = std::vector<std::vector<AttentionTile>>;  // one list per row

}  // namespace trireme
