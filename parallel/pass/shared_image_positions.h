// Positions of M-RoPE, and image tokens by number, of rows whose documents may have their beginnings in common
// (Row::shared of data/rows.h): of such a document they are those that it would have with its beginning before it.
// Plain numbers, no torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/pass/image_positions.h"

namespace trireme {

struct PlacedImageTokens {
  std::vector<int64_t> positions;    // [3, tokens], as image_positions.h has them
  std::vector<int64_t> image_token;  // [tokens]: which token of the images each is, -1: none
};

// `shared`: of each document how many tokens at the beginning of the last document before it that shares nothing are
// its own beginning, too, images among them, and are not repeated; empty: none. `grids`: of the images that stand in
// the row, in their order. Without lengths the row is one document. Throws InputError where grids and placeholders do
// not match.
PlacedImageTokens PlaceImageTokens(std::span<const int64_t> tokens, std::span<const int64_t> lengths,
                                   std::span<const int64_t> shared, std::span<const ImageGrid> grids,
                                   const ImageTokens& kind);

}  // namespace trireme
