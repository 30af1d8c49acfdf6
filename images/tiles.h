// Tiles: how InternVL's processor (transformers' GotOcr2ImageProcessor) cuts an image: into a grid of square tiles
// whose aspect ratio is nearest to the image's, and the whole image as one more tile where there are several.
#pragma once

#include <cstdint>

#include "images/image.h"

namespace trireme::images {

struct TileSettings {
  int64_t side = 448;  // in pixels
  int64_t fewest = 1;  // tiles of the grid
  int64_t most = 12;
};

struct TileGrid {
  int64_t columns = 1, rows = 1;

  // With the whole image among them.
  int64_t tiles() const { return columns * rows == 1 ? 1 : columns * rows + 1; }
};

TileGrid TilesFor(int64_t width, int64_t height, const TileSettings& settings);

// The tiles one below the other, row by row of the grid: [tiles · side, side].
Image CutTiles(const Image& image, const TileSettings& settings);

}  // namespace trireme::images
