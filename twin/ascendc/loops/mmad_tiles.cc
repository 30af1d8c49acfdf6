// A fractal of C is a tile of the processor's: 16 rows of 64 bytes. Two fractals of A side by side are one, and two of
// B below each other, whose pairs along k are first brought together. Blocks of 2 x 2 tiles of C stay in registers.
#include "twin/ascendc/loops/mmad_tiles.h"

#include <cstring>
#include <memory>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TWIN_HAS_TILES 1
#endif

namespace twin::ascendc::loops {

#ifdef TWIN_HAS_TILES
namespace {

constexpr size_t kSide = 16, kDepth = 32, kTile = kSide * kDepth, kFractal = 256, kRowBytes = 64;

// The kernel of the system grants the tiles' registers to a process that asks for them.
bool AskForTiles() {
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  constexpr long kRequest = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

struct Packed {
  std::unique_ptr<uint16_t[]> memory;
  size_t size = 0;
  uint16_t* Of(size_t wanted) {
    if (wanted > size) memory = std::make_unique<uint16_t[]>(wanted), size = wanted;
    return memory.get();
  }
};
thread_local Packed packed_a, packed_b;

// [fractals_m, tiles of k, 16 rows, 32]
void PackRows(uint16_t* dst, const uint16_t* a, const ProductShape& s, size_t tiles) {
  for (size_t m = 0; m < s.fractals_m; ++m) {
    for (size_t k = 0; k < 2 * tiles; ++k) {
      uint16_t* to = dst + (m * tiles + k / 2) * kTile + k % 2 * kSide;
      const uint16_t* from = a + (m * s.fractals_k + k) * kFractal;
      for (size_t row = 0; row < kSide; ++row) {
        if (k < s.fractals_k) std::memcpy(to + row * kDepth, from + row * kSide, 2 * kSide);
        if (k >= s.fractals_k) std::memset(to + row * kDepth, 0, 2 * kSide);
      }
    }
  }
}
#define TWIN_V4 __attribute__((target("arch=x86-64-v4")))

// Which of two registers' 32 elements [columns, depth of each] become `depth` rows from `first` on of both's columns: a
// step of the transposition, after which half as many rows of twice as many columns are together.
struct Step {
  alignas(64) int32_t of[2][16];
};
constexpr Step StepOf(int columns, bool by_columns) {
  Step step{};
  const int depth = 16 / columns;  // of each register
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 16; ++i) {
      const int row = half * depth / 2 + i / (2 * columns), column = i % (2 * columns), source = column / columns;
      step.of[half][i] = source * 16 + (by_columns ? column % columns * depth + row : row * columns + column % columns);
    }
  }
  return step;
}
constexpr Step kSteps[] = {StepOf(2, true), StepOf(4, false), StepOf(8, false)};

// 16 columns of 8 pairs become 8 rows of 16.
TWIN_V4 void TransposePairs(uint32_t* dst, const uint16_t* src) {
  __m512i rows[2][8];
  for (int i = 0; i < 8; ++i) rows[0][i] = _mm512_loadu_si512(src + i * 32);
  for (int step = 0; step < 3; ++step) {
    const __m512i first = _mm512_load_si512(kSteps[step].of[0]), second = _mm512_load_si512(kSteps[step].of[1]);
    const int parts = 1 << step;  // registers of one group of columns, by rows
    for (int group = 0; group < 4 >> step; ++group) {
      for (int part = 0; part < parts; ++part) {
        const __m512i a = rows[step % 2][2 * group * parts + part], b = rows[step % 2][(2 * group + 1) * parts + part];
        __m512i* to = &rows[1 - step % 2][2 * group * parts + 2 * part];
        to[0] = _mm512_permutex2var_epi32(a, first, b);
        to[1] = _mm512_permutex2var_epi32(a, second, b);
      }
    }
  }
  for (int i = 0; i < 8; ++i) _mm512_storeu_si512(dst + i * 16, rows[1][i]);
}

// [fractals_n, tiles of k, 16 pairs of k, 16 columns, 2]
TWIN_V4 void PackPairs(uint16_t* dst, const uint16_t* b, const ProductShape& s, size_t tiles) {
  constexpr size_t kPairs = 8;  // of a fractal
  for (size_t n = 0; n < s.fractals_n; ++n) {
    for (size_t k = 0; k < 2 * tiles; ++k) {
      auto* to = reinterpret_cast<uint32_t*>(dst + (n * tiles + k / 2) * kTile) + k % 2 * kPairs * kSide;
      if (k < s.fractals_k) TransposePairs(to, b + (k * s.fractals_n + n) * kFractal);
      if (k >= s.fractals_k) std::memset(to, 0, kPairs * kSide * sizeof(uint32_t));
    }
  }
}
// What is in the last tile of k beyond k.
void ClearRest(uint16_t* a, uint16_t* b, const ProductShape& s, size_t tiles) {
  for (size_t k = s.k - (tiles - 1) * kDepth; k < kDepth; ++k) {
    for (size_t i = 0; i < kSide; ++i) {
      for (size_t m = 0; m < s.fractals_m; ++m) a[(m * tiles + tiles - 1) * kTile + i * kDepth + k] = 0;
      for (size_t n = 0; n < s.fractals_n; ++n) b[(n * tiles + tiles - 1) * kTile + k / 2 * kDepth + 2 * i + k % 2] = 0;
    }
  }
}

__attribute__((target("amx-tile,amx-bf16"))) void Four(float* c, size_t right, const uint16_t* a, const uint16_t* b,
                                                       size_t tiles) {
  _tile_loadd(0, c, kRowBytes);
  _tile_loadd(1, c + right, kRowBytes);
  _tile_loadd(2, c + kFractal, kRowBytes);
  _tile_loadd(3, c + right + kFractal, kRowBytes);
  for (size_t k = 0; k < tiles; ++k) {
    _tile_loadd(4, a + k * kTile, kRowBytes);
    _tile_loadd(5, a + (tiles + k) * kTile, kRowBytes);
    _tile_loadd(6, b + k * kTile, kRowBytes);
    _tile_loadd(7, b + (tiles + k) * kTile, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, kRowBytes);
  _tile_stored(1, c + right, kRowBytes);
  _tile_stored(2, c + kFractal, kRowBytes);
  _tile_stored(3, c + right + kFractal, kRowBytes);
}
__attribute__((target("amx-tile,amx-bf16"))) void One(float* c, const uint16_t* a, const uint16_t* b, size_t tiles) {
  _tile_loadd(0, c, kRowBytes);
  for (size_t k = 0; k < tiles; ++k) {
    _tile_loadd(4, a + k * kTile, kRowBytes);
    _tile_loadd(6, b + k * kTile, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
  }
  _tile_stored(0, c, kRowBytes);
}

__attribute__((target("amx-tile,amx-bf16"))) void InBlocks(float* c, const uint16_t* a, const uint16_t* b,
                                                           const ProductShape& s, size_t tiles) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.row_bytes[i] = kRowBytes, config.rows[i] = kSide;
  _tile_loadconfig(&config);
  const size_t right = s.fractals_m * kFractal;
  for (size_t n = 0; n < s.fractals_n; n += 2) {
    for (size_t m = 0; m < s.fractals_m; m += 2) {
      float* to = c + n * right + m * kFractal;
      const uint16_t *left = a + m * tiles * kTile, *top = b + n * tiles * kTile;
      const bool two_rows = m + 1 < s.fractals_m, two_columns = n + 1 < s.fractals_n;
      if (two_rows && two_columns) {
        Four(to, right, left, top, tiles);
        continue;
      }
      One(to, left, top, tiles);
      if (two_rows) One(to + kFractal, left + tiles * kTile, top, tiles);
      if (two_columns) One(to + right, left, top + tiles * kTile, tiles);
    }
  }
  _tile_release();
}

}  // namespace

bool HasTiles() {
  static const bool has = AskForTiles();
  return has;
}

void MultiplyTiles(float* c, const uint16_t* a, const uint16_t* b, const ProductShape& s) {
  const size_t tiles = (s.k + kDepth - 1) / kDepth;
  uint16_t *left = packed_a.Of(s.fractals_m * tiles * kTile), *top = packed_b.Of(s.fractals_n * tiles * kTile);
  PackRows(left, a, s, tiles);
  PackPairs(top, b, s, tiles);
  if (s.k % kDepth != 0) ClearRest(left, top, s, tiles);
  InBlocks(c, left, top, s, tiles);
}
#else
bool HasTiles() { return false; }
void MultiplyTiles(float*, const uint16_t*, const uint16_t*, const ProductShape&) {}
#endif

}  // namespace twin::ascendc::loops
