// Tiling data that both a program and its kernels include: the length of a vector and its number of tiles.
#pragma once

#include <cstdint>

struct AddTiling {
  uint32_t total_length;
  uint32_t tiles;
};

namespace samples {
struct RowTiling {
  uint32_t rows, columns;
  float scale;
};
}  // namespace samples
