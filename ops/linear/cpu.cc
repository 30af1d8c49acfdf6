#include "ops/linear/cpu.h"

#include <algorithm>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "ops/cpu/vectors.h"

namespace trireme::cpu {
namespace {

// A tile of kRows x kColumns sums, each a vector over the inputs, fits into the registers with a vector of
// each column's weights. One or two rows have more columns: their sums would wait for each other.
template <int kLanes_, int kRows_, int kColumns_>
struct TileSize {
  static constexpr int kLanes = kLanes_, kRows = kRows_, kColumns = kColumns_;
};
constexpr int64_t kColumnsPerBlock = 32;  // whose weights stay in a core's cache while rows pass by

// Inputs that a step takes of a row.
template <typename T, int kLanes>
constexpr int64_t kStep = sizeof(T) == sizeof(float) ? kLanes : 2 * kLanes;

template <typename T>
struct TileInput {
  const float* x;  // packed
  const T* weight;
  int64_t in = 0;
  // From a weight to the one to request while it is used: the next tile's, or 0 where that is in the cache.
  // The processor by itself asks too late.
  int64_t ahead = 0;
};

template <int kLanes, int kRows, int kColumns>
TRIREME_INLINE void AddStep(const float* x, const float* weight, int64_t in,
                            typename Lanes<kLanes>::Floats (&sums)[kRows][kColumns]) {
  using V = Lanes<kLanes>;
  typename V::Floats w[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) w[c] = V::Load(weight + c * in);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename V::Floats value = V::Load(x + r * in);
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) sums[r][c] += value * w[c];
  }
}

template <int kLanes, int kRows, int kColumns>
TRIREME_INLINE void AddStep(const float* x, const Bf16* weight, int64_t in,
                            typename Lanes<kLanes>::Floats (&sums)[kRows][kColumns]) {
  using V = Lanes<kLanes>;
  typename V::EvenOdd w[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) w[c] = V::LoadPairs(weight + c * in);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename V::Floats even = V::Load(x + r * in), odd = V::Load(x + r * in + kLanes);
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      sums[r][c] += even * w[c].even;
      sums[r][c] += odd * w[c].odd;
    }
  }
}

// y: [kRows, stride]
template <typename T, int kLanes, int kRows, int kColumns>
TRIREME_INLINE void Tile(const TileInput<T>& input, int64_t stride, float* y) {
  constexpr int64_t kTaken = kStep<T, kLanes>;
  const int64_t in = input.in, whole = in / kTaken * kTaken;
  typename Lanes<kLanes>::Floats sums[kRows][kColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) sums[r][c] = typename Lanes<kLanes>::Floats{};
  }
  for (int64_t i = 0; i < whole; i += kTaken) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) __builtin_prefetch(input.weight + input.ahead + c * in + i);
    AddStep<kLanes, kRows, kColumns>(input.x + i, input.weight + i, in, sums);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      float sum = Lanes<kLanes>::Sum(sums[r][c]);
      for (int64_t i = whole; i < in; ++i) sum += input.x[r * in + i] * Widen(input.weight[c * in + i]);
      y[r * stride + c] = sum;
    }
  }
}

// The columns of a block, for a strip of rows, in memory of the core's own.
struct StripSums {
  float sums[8 * kColumnsPerBlock];  // [rows, kColumnsPerBlock]
};

// kRows rows and a block's columns. The last tile is moved back to end with the block: what it computes again
// is the same. A matrix narrower than a tile is computed column by column.
template <typename T, int kLanes, int kRows, int kColumns>
TRIREME_INLINE void Strip(TileInput<T> input, Rows columns, StripSums& y) {
  const T* weight = input.weight;
  if (input.ahead != 0) input.ahead = kColumns * input.in;
  const int64_t count = columns.end - columns.begin;
  if (count < kColumns) {
    for (int64_t c = 0; c < count; ++c) {
      for (int r = 0; r < kRows; ++r) {
        const TileInput<T> one{input.x + r * input.in, weight + (columns.begin + c) * input.in, input.in, 0};
        Tile<T, kLanes, 1, 1>(one, kColumnsPerBlock, y.sums + r * kColumnsPerBlock + c);
      }
    }
    return;
  }
  for (int64_t c = 0; c < count; c += kColumns) {
    const int64_t first = std::min(c, count - kColumns);
    input.weight = weight + (columns.begin + first) * input.in;
    Tile<T, kLanes, kRows, kColumns>(input, kColumnsPerBlock, y.sums + first);
  }
}

// A strip of as many rows as given, at most kRows.
template <typename Size, int kRows, typename T>
TRIREME_INLINE void StripOf(int64_t rows, const TileInput<T>& input, Rows columns, StripSums& y) {
  if constexpr (kRows > 0) {
    constexpr int kColumns = kRows <= 2 ? 2 * Size::kColumns : Size::kColumns;
    if (rows == kRows) return Strip<T, Size::kLanes, kRows, kColumns>(input, columns, y);
    StripOf<Size, kRows - 1>(rows, input, columns, y);
  }
}

// Strips of rows, as equal as possible; finish(rows, columns, sums) takes each one's results.
template <typename Size, typename T, typename Finish>
TRIREME_INLINE void Columns(const float* packed, const T* weight, const LinearShape& shape, Rows columns,
                            const Finish& finish) {
  const int64_t strips = (shape.rows + Size::kRows - 1) / Size::kRows;
  StripSums sums;
  for (int64_t c = columns.begin; c < columns.end; c += kColumnsPerBlock) {
    const Rows block{c, std::min(c + kColumnsPerBlock, columns.end)};
    for (int64_t strip = 0; strip < strips; ++strip) {
      const Rows rows{shape.rows * strip / strips, shape.rows * (strip + 1) / strips};
      StripOf<Size, Size::kRows>(rows.end - rows.begin,
                                 TileInput<T>{packed + rows.begin * shape.in, weight, shape.in, strip == 0}, block,
                                 sums);
      finish(rows, block, sums);
    }
  }
}

// To y, with the bias if there is one.
template <typename T>
struct ToResult {
  const T* bias;
  int64_t stride;
  T* y;
  TRIREME_INLINE void operator()(Rows rows, Rows columns, const StripSums& from) const {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* sums = from.sums + (r - rows.begin) * kColumnsPerBlock - columns.begin;
      for (int64_t c = columns.begin; c < columns.end; ++c)
        y[r * stride + c] = NarrowResult<T>(bias == nullptr ? sums[c] : sums[c] + Widen(bias[c]));
    }
  }
};

template <int kLanes>
TRIREME_INLINE void Pack(const Bf16* x, const LinearShape& shape, Rows rows, float* packed) {
  constexpr int64_t kTaken = 2 * kLanes;
  const int64_t whole = shape.in / kTaken * kTaken;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const Bf16* from = x + r * shape.in;
    float* to = packed + r * shape.in;
    for (int64_t i = 0; i < whole; i += kTaken) {
      const typename Lanes<kLanes>::EvenOdd lanes = Lanes<kLanes>::LoadPairs(from + i);
      Lanes<kLanes>::Store(lanes.even, to + i);
      Lanes<kLanes>::Store(lanes.odd, to + i + kLanes);
    }
    for (int64_t i = whole; i < shape.in; ++i) to[i] = Widen(from[i]);
  }
}

// The same loops for each generation of processors, with vectors and tiles that its registers hold.
struct Loops {
  void (*pack)(const Bf16*, const LinearShape&, Rows, float*);
  void (*wide)(const float*, const float*, const float*, const LinearShape&, Rows, float*);
  void (*narrow)(const float*, const Bf16*, const Bf16*, const LinearShape&, Rows, void*, bool is_fp32);
};

#define TRIREME_LINEAR_LOOPS(name, target, size)                                                           \
  target void Pack##name(const Bf16* x, const LinearShape& shape, Rows rows, float* packed) {              \
    Pack<size::kLanes>(x, shape, rows, packed);                                                            \
  }                                                                                                        \
  target void Wide##name(const float* x, const float* weight, const float* bias, const LinearShape& shape, \
                         Rows columns, float* y) {                                                         \
    Columns<size>(x, weight, shape, columns, ToResult<float>{bias, shape.out, y});                         \
  }                                                                                                        \
  target void Narrow##name(const float* x, const Bf16* weight, const Bf16* bias, const LinearShape& shape, \
                           Rows columns, void* y, bool is_fp32) {                                          \
    Columns<size>(x, weight, shape, columns, [&](Rows rows, Rows block, const StripSums& sums) {           \
      if (is_fp32) {                                                                                       \
        ToResult<float>{nullptr, shape.out, static_cast<float*>(y)}(rows, block, sums);                    \
      } else {                                                                                             \
        ToResult<Bf16>{bias, shape.out, static_cast<Bf16*>(y)}(rows, block, sums);                         \
      }                                                                                                    \
    });                                                                                                    \
  }                                                                                                        \
  constexpr Loops kLoops##name { Pack##name, Wide##name, Narrow##name }

#if defined(__x86_64__)
using Tile512 = TileSize<16, 6, 4>;
using Tile256 = TileSize<8, 4, 2>;
using Tile128 = TileSize<4, 4, 2>;
TRIREME_LINEAR_LOOPS(V4, __attribute__((target("arch=x86-64-v4"))), Tile512);
TRIREME_LINEAR_LOOPS(V3, __attribute__((target("arch=x86-64-v3"))), Tile256);
TRIREME_LINEAR_LOOPS(Plain, , Tile128);

const Loops& ThisMachines() {
  static const Loops& loops = __builtin_cpu_supports("x86-64-v4")   ? kLoopsV4
                              : __builtin_cpu_supports("x86-64-v3") ? kLoopsV3
                                                                    : kLoopsPlain;
  return loops;
}
#else
using Tile128 = TileSize<4, 4, 4>;  // 32 registers, as aarch64 has them
TRIREME_LINEAR_LOOPS(Plain, , Tile128);
const Loops& ThisMachines() { return kLoopsPlain; }
#endif

}  // namespace

#if defined(__x86_64__)
bool HasBf16Products() { return __builtin_cpu_supports("avx512bf16") != 0; }
#elif defined(__aarch64__) && defined(__linux__)
bool HasBf16Products() { return (getauxval(AT_HWCAP2) & (1u << 14)) != 0; }  // HWCAP2_BF16
#else
bool HasBf16Products() { return false; }
#endif

void PackRows(const Bf16* x, const LinearShape& shape, Rows rows, float* packed) {
  ThisMachines().pack(x, shape, rows, packed);
}

void LinearColumns(const float* packed, const float* weight, const float* bias, const LinearShape& shape, Rows columns,
                   float* y) {
  ThisMachines().wide(packed, weight, bias, shape, columns, y);
}
void LinearColumns(const float* packed, const Bf16* weight, const Bf16* bias, const LinearShape& shape, Rows columns,
                   Bf16* y) {
  ThisMachines().narrow(packed, weight, bias, shape, columns, y, /*is_fp32=*/false);
}

void DotColumns(const float* packed, const float* keys, const LinearShape& shape, Rows columns, float* y) {
  ThisMachines().wide(packed, keys, nullptr, shape, columns, y);
}
void DotColumns(const float* packed, const Bf16* keys, const LinearShape& shape, Rows columns, float* y) {
  ThisMachines().narrow(packed, keys, nullptr, shape, columns, y, /*is_fp32=*/true);
}

}  // namespace trireme::cpu
