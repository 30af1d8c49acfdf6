// Rows to e4m3 with a power of two as their scale, in one pass over memory; and matrices turned, of bytes or while they
// are cast.
#include "ops/cuda/kernels.h"
#include "ops/fp8_linear/cast.cuh"

namespace trireme::cuda {
namespace {

constexpr int N = kWide<Bf16>;
// A block keeps two packs of a short row in each thread. Longer rows are read twice, the second time from the cache: to
// keep them would leave room for a block or two on a multiprocessor, and takes a third longer.
constexpr int kKept = 2, kMostKept = 512 * kKept * N, kLong = 32768;
constexpr int kThreads = 512, kMostThreads = 1024;

struct Row {
  const Bf16* from;
  const Bf16* factors;

  __device__ inline void Get(const Pack<Bf16, N>& raw, int64_t column, float (&to)[N]) const {
    Unpack(raw, to);
    if (factors == nullptr) return;
    float by[N];
    Load<Bf16>(factors + column, by);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] *= by[i];
  }
};

__device__ inline Row RowOf(const CastRowsArgs& a, int64_t row) {
  return {static_cast<const Bf16*>(a.rows) + row * a.columns, static_cast<const Bf16*>(a.factors)};
}

// A row a block, which is kept.
__global__ void __launch_bounds__(kThreads) CastKernel(const CastRowsArgs a) {
  LetNextStart();
  const int64_t row = blockIdx.x;
  const int packs = static_cast<int>(a.columns / N);
  const Row source = RowOf(a, row);
  Pack<Bf16, N> kept[kKept];
  float x[N], largest = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int pack = threadIdx.x + i * static_cast<int>(blockDim.x);
    if (pack < packs) kept[i] = LoadRaw<N>(source.from + pack * N);
  }
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int pack = threadIdx.x + i * static_cast<int>(blockDim.x);
    if (pack >= packs) continue;
    source.Get(kept[i], pack * N, x);
    largest = Largest(x, largest);
  }
  const RowScale scale = ScaleOf(a.largest != nullptr ? a.largest[row] : BlockLargest(largest));
  if (threadIdx.x == 0) a.scales[row] = scale.scale;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int pack = threadIdx.x + i * static_cast<int>(blockDim.x);
    if (pack >= packs) continue;
    source.Get(kept[i], pack * N, x);
    StoreCodes(x, scale.inverse, a.codes + row * a.columns + pack * N);
  }
}

template <int kCount>
__device__ inline float LargestOf(const Row& source, int packs) {
  float x[N], largest = 0;
#pragma unroll 4
  for (int pack = threadIdx.x; pack < packs; pack += kCount) {
    source.Get(LoadRaw<N>(source.from + pack * N), pack * N, x);
    largest = Largest(x, largest);
  }
  return BlockLargest(largest);
}

// The same of a long row.
template <int kCount>
__global__ void __launch_bounds__(kCount) CastLongKernel(const CastRowsArgs a) {
  LetNextStart();
  const int64_t row = blockIdx.x;
  const int packs = static_cast<int>(a.columns / N);
  const Row source = RowOf(a, row);
  const RowScale scale = ScaleOf(a.largest != nullptr ? a.largest[row] : LargestOf<kCount>(source, packs));
  if (threadIdx.x == 0) a.scales[row] = scale.scale;
  float x[N];
#pragma unroll 4
  for (int pack = threadIdx.x; pack < packs; pack += kCount) {
    source.Get(LoadRaw<N>(source.from + pack * N), pack * N, x);
    StoreCodes(x, scale.inverse, a.codes + row * a.columns + pack * N);
  }
}

__global__ void __launch_bounds__(kThreads) LargestKernel(const CastRowsArgs a) {
  const float largest = LargestOf<kThreads>(RowOf(a, blockIdx.x), static_cast<int>(a.columns / N));
  if (threadIdx.x == 0) a.largest[blockIdx.x] = largest;
}

// Of a block that keeps a row, in whole warps.
unsigned ThreadsFor(int64_t columns) {
  const int64_t wanted = (columns / N + kKept - 1) / kKept;
  return static_cast<unsigned>((wanted + 31) / 32 * 32);
}

// Bytes [128, 128] of a tile: a thread turns 16 rows of a word's 4 columns. Rows that are 16 apart lie in other banks.
constexpr int kTile = 128, kTurnThreads = 256, kPacksOfRow = kTile / 16, kRowsOfThread = 16;

// Column k of four rows of four bytes.
__device__ inline uint32_t ByteColumn(const uint32_t* rows, int k) {
  const uint32_t pick = static_cast<uint32_t>(k) | static_cast<uint32_t>(k + 4) << 4;
  return __byte_perm(__byte_perm(rows[0], rows[1], pick), __byte_perm(rows[2], rows[3], pick), 0x5410);
}

// 16 codes of a row.
struct StoredCodes {
  const uint8_t* from;

  __device__ inline Pack<uint32_t, 4> Get(int64_t /*row*/, int64_t at) const {
    return *reinterpret_cast<const Pack<uint32_t, 4>*>(from + at);
  }
};

// The same of a matrix in bf16, under scales that are known.
struct CastCodes {
  const Bf16* from;
  const float* scales;

  __device__ inline Pack<uint32_t, 4> Get(int64_t row, int64_t at) const {
    const float inverse = __uint_as_float((254 - (__float_as_uint(scales[row]) >> 23)) << 23);
    Pack<uint32_t, 4> codes;
    auto* half = reinterpret_cast<uint8_t*>(&codes);
    float x[N];
#pragma unroll
    for (int i = 0; i < 16; i += N) {
      Unpack(LoadRaw<N>(from + at + i), x);
      StoreCodes(x, inverse, half + i);
    }
    return codes;
  }
};

// The last tiles may be smaller, in steps of 16.
template <class Source>
__global__ void __launch_bounds__(kTurnThreads)
    TurnKernel(const Source source, uint8_t* to, int64_t rows, int64_t columns) {
  __shared__ Pack<uint32_t, 4> tile[kTile][kPacksOfRow];
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile, column = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int i = threadIdx.x; i < kTile * kPacksOfRow; i += kTurnThreads) {
    const int r = i / kPacksOfRow, pack = i % kPacksOfRow;
    if (row + r >= rows || column + pack * 16 >= columns) continue;
    tile[r][pack ^ (r / kRowsOfThread)] = source.Get(row + r, (row + r) * columns + column + pack * 16);
  }
  __syncthreads();
  const int group = threadIdx.x % 8, word = threadIdx.x / 8, first = group * kRowsOfThread;
  if (row + first >= rows || column + word * 4 >= columns) return;
  uint32_t words[kRowsOfThread];
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) words[r] = tile[first + r][(word / 4) ^ group].at[word % 4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    Pack<uint32_t, 4> pack;
#pragma unroll
    for (int four = 0; four < 4; ++four) pack.at[four] = ByteColumn(words + 4 * four, k);
    *reinterpret_cast<Pack<uint32_t, 4>*>(to + (column + word * 4 + k) * rows + row + first) = pack;
  }
}

template <class Source>
int Turn(const Source& source, uint8_t* to, int64_t rows, int64_t columns, void* stream) {
  if (rows == 0 || columns == 0) return 0;
  const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile),
                  static_cast<unsigned>((rows + kTile - 1) / kTile));
  TurnKernel<<<grid, kTurnThreads, 0, On(stream)>>>(source, to, rows, columns);
  return Launched();
}

}  // namespace

int CastRows(const CastRowsArgs& a, void* stream) {
  if (a.count == 0 || a.columns == 0) return 0;
  const auto blocks = static_cast<unsigned>(a.count);
  if (a.columns <= kMostKept) {
    CastKernel<<<blocks, ThreadsFor(a.columns), 0, On(stream)>>>(a);
  } else if (a.columns < kLong) {
    CastLongKernel<kThreads><<<blocks, kThreads, 0, On(stream)>>>(a);
  } else {
    CastLongKernel<kMostThreads><<<blocks, kMostThreads, 0, On(stream)>>>(a);
  }
  return Launched();
}

int LargestOfRows(const CastRowsArgs& a, void* stream) {
  if (a.count == 0) return 0;
  LargestKernel<<<static_cast<unsigned>(a.count), kThreads, 0, On(stream)>>>(a);
  return Launched();
}

int TurnBytes(const uint8_t* from, uint8_t* to, int64_t rows, int64_t columns, void* stream) {
  return Turn(StoredCodes{from}, to, rows, columns, stream);
}

int CastTurned(const void* from, const float* scales, uint8_t* to, int64_t rows, int64_t columns, void* stream) {
  return Turn(CastCodes{static_cast<const Bf16*>(from), scales}, to, rows, columns, stream);
}

}  // namespace trireme::cuda
