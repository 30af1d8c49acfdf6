// ImagePositions: the positions of M-RoPE, three per token (time, row, column), as transformers' get_rope_index of
// Qwen2-VL, Qwen2.5-VL and Qwen3-VL computes them. Plain numbers, no torch: what pixels are, and which frequencies the
// positions rotate, are not its concern. Models whose images are cut into tiles have plain positions. Videos are not
// covered: their positions differ between versions of transformers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/image_grid.h"

namespace trireme {

struct ImageTokens {        // what a model calls them
  int64_t placeholder = 0;  // config.json's image_token_id: each token of an image
  int64_t merge = 2;        // vision_config.spatial_merge_size
  int64_t tile = 0;         // patches per side of a tile, of which a grid counts several; 0: an image is a single frame
};

// [3, tokens], row-major: of one document, which starts at position 0. The k-th image's placeholders follow each other.
// Throws InputError where grids and placeholders do not match in number.
std::vector<int64_t> ImagePositions(std::span<const int64_t> tokens, std::span<const ImageGrid> grids,
                                    const ImageTokens& kind);

// [3, tokens]: of several documents one after another, `lengths` tokens each; the images of all of them in order. What
// follows the last document is padding and counts from 0 like a document of text.
std::vector<int64_t> PackedImagePositions(std::span<const int64_t> tokens, std::span<const int64_t> lengths,
                                          std::span<const ImageGrid> grids, const ImageTokens& kind);

}  // namespace trireme
