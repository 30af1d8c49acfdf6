#include "images/tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "images/resize.h"

namespace trireme::images {
namespace {

// By the number of tiles; of as many, by columns.
std::vector<TileGrid> GridsOf(const TileSettings& settings) {
  std::vector<TileGrid> grids;
  for (int64_t columns = 1; columns <= settings.most; ++columns) {
    for (int64_t rows = 1; rows * columns <= settings.most; ++rows) {
      if (rows * columns >= settings.fewest) grids.push_back({columns, rows});
    }
  }
  std::ranges::stable_sort(grids, {}, [](const TileGrid& grid) { return grid.columns * grid.rows; });
  return grids;
}

void CopyTile(const Image& from, int64_t left, int64_t top, int64_t side, uint8_t* to) {
  for (int64_t y = 0; y < side; ++y) to = std::copy_n(from.row(top + y) + 3 * left, 3 * side, to);
}

}  // namespace

TileGrid TilesFor(int64_t width, int64_t height, const TileSettings& settings) {
  const double aspect = static_cast<double>(width) / static_cast<double>(height);
  const double area = static_cast<double>(width * height), tile = static_cast<double>(settings.side * settings.side);
  double nearest = std::numeric_limits<double>::infinity();
  TileGrid best;
  for (const TileGrid& grid : GridsOf(settings)) {
    const double away = std::abs(aspect - static_cast<double>(grid.columns) / static_cast<double>(grid.rows));
    // Of equally near ones the larger, as long as the image fills half of it.
    const bool fills = area > 0.5 * tile * static_cast<double>(grid.columns * grid.rows);
    if (away < nearest || (away == nearest && fills)) best = grid;
    nearest = std::min(nearest, away);
  }
  return best;
}

Image CutTiles(const Image& image, const TileSettings& settings) {
  const TileGrid grid = TilesFor(image.width, image.height, settings);
  const int64_t side = settings.side;
  const Image resized = Resize(image, side * grid.columns, side * grid.rows);
  Image cut(side, side * grid.tiles());
  for (int64_t i = 0; i < grid.columns * grid.rows; ++i) {
    CopyTile(resized, i % grid.columns * side, i / grid.columns * side, side, cut.row(i * side));
  }
  if (grid.tiles() > 1) CopyTile(Resize(image, side, side), 0, 0, side, cut.row((grid.tiles() - 1) * side));
  return cut;
}

}  // namespace trireme::images
