// y = x Wᵀ of few rows in e4m3, as in a step of generation: what takes the time is reading W, so that each of its codes
// is read once, by 16 bytes a thread straight into the operands of the tensor cores, and rows of x wait in them.
// Products are exact and sums in fp32: on Hopper this instruction multiplies in fp16. A single row is cast by each
// block, while its first codes of W are under way; in a recorded step they already are while the kernel before it runs.
#include "ops/cuda/kernels.h"
#include "ops/fp8_linear/cast.cuh"

namespace trireme::cuda {
namespace {

constexpr int N = kWide<Bf16>;
constexpr int kOutputs = 16, kTokens = 8,
              kChunk = 64;  // of a product by tensor cores; bytes of a row that a warp reads

// 16 codes of a row. Of both operands a thread takes bytes 16 t to 16 t + 15 of a chunk in place of those that a tile
// of the tensor cores has side by side: what is summed over may be in any order.
using Codes = Pack<uint32_t, 4>;

__device__ inline Codes LoadOnce(const uint8_t* from) {
  Codes codes;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(codes.at[0]), "=r"(codes.at[1]), "=r"(codes.at[2]), "=r"(codes.at[3])
               : "l"(from));
  return codes;
}

__device__ inline void Multiply(float (&sum)[4], uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3, uint32_t x0,
                                uint32_t x1) {
#if __CUDA_ARCH__ >= 890
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(w0), "r"(w1), "r"(w2), "r"(w3), "r"(x0), "r"(x1));
#endif
}

// The codes of a single row, into shared memory.
__device__ inline float CastRow(const FewRowsArgs& a, uint8_t* codes) {
  const auto* row = static_cast<const Bf16*>(a.rows);
  const int packs = static_cast<int>(a.in / N);
  float x[N], largest = 0;
#pragma unroll 4
  for (int pack = threadIdx.x; pack < packs; pack += blockDim.x) {
    Load<Bf16>(row + pack * N, x);
    largest = Largest(x, largest);
  }
  const RowScale scale = ScaleOf(BlockLargest(largest));
#pragma unroll 4
  for (int pack = threadIdx.x; pack < packs; pack += blockDim.x) {
    Load<Bf16>(row + pack * N, x);
    StoreCodes(x, scale.inverse, codes + pack * N);
  }
  __syncthreads();
  return scale.scale;
}

// 16 bytes of a band's upper and lower 8 outputs, for each of the chunks that a warp reads at once.
template <int kBands, int kDeep>
struct Stage {
  Codes at[kDeep][kBands][2];
};

// Tiles of kBands · 16 outputs for kTokenTiles · 8 rows. Warps share out what is summed over: each has a chunk in
// kWarps, and the next kDeep of its chunks are under way, of the next tile, too, while it multiplies those it has.
template <int kTokenTiles, int kBands, int kWarps, int kDeep>
struct FewRowsBlock {
  static constexpr int kRows = kBands * kOutputs, kColumns = kTokenTiles * kTokens, kThreads = kWarps * 32;
  using Codes16 = Stage<kBands, kDeep>;
  using Sums = float[kBands][kTokenTiles][4];

  const FewRowsArgs& a;
  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;

  __device__ inline int64_t PlaceOf(int stage, int i) const {
    return static_cast<int64_t>((stage * kDeep + i) * kWarps + warp) * kChunk + quarter * 16;
  }

  __device__ inline void Fetch(int64_t tile, int stage, Codes16& to) const {
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
      // The last tile may have fewer bands: those are computed twice.
      const int64_t row = min(tile * kRows + band * kOutputs, a.out - kOutputs) + group;
#pragma unroll
      for (int i = 0; i < kDeep; ++i) {
        const int64_t at = PlaceOf(stage, i);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          to.at[i][band][half] = {};
          if (at < a.in) to.at[i][band][half] = LoadOnce(a.matrix + (row + half * 8) * a.in + at);
        }
      }
    }
  }

  __device__ inline void Add(const Codes16& w, const uint8_t* codes, int stage, Sums& sums) const {
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      const int64_t at = PlaceOf(stage, i);
#pragma unroll
      for (int tile = 0; tile < kTokenTiles; ++tile) {
        const int token = tile * kTokens + group;
        Codes x = {};
        if (token < a.count && at < a.in) x = *reinterpret_cast<const Codes*>(codes + token * a.in + at);
#pragma unroll
        for (int band = 0; band < kBands; ++band) {
          const Codes &upper = w.at[i][band][0], &lower = w.at[i][band][1];
          float (&sum)[4] = sums[band][tile];
          Multiply(sum, upper.at[0], lower.at[0], upper.at[1], lower.at[1], x.at[0], x.at[1]);
          Multiply(sum, upper.at[2], lower.at[2], upper.at[3], lower.at[3], x.at[2], x.at[3]);
        }
      }
    }
  }

  // Over the warps; row_scale: of a single row.
  __device__ inline void Store(int64_t tile, const Sums& sums, float row_scale) const {
    __shared__ float parts[kWarps][kColumns][kRows + 1];
    __syncthreads();  // the last tile's have been read
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
#pragma unroll
      for (int tokens = 0; tokens < kTokenTiles; ++tokens) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          parts[warp][tokens * kTokens + quarter * 2 + j % 2][band * kOutputs + group + j / 2 * 8] =
              sums[band][tokens][j];
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kColumns; i += kThreads) {
      const int64_t row = tile * kRows + i % kRows, token = i / kRows;
      if (row >= a.out || token >= a.count) continue;
      float sum = 0;
#pragma unroll
      for (int part = 0; part < kWarps; ++part) sum += parts[part][token][i % kRows];
      sum *= (a.codes == nullptr ? row_scale : a.scales[token]) * a.matrix_scales[row];
      if (a.bias != nullptr) sum += Wide(static_cast<const Bf16*>(a.bias)[row]);
      static_cast<Bf16*>(a.y)[token * a.out + row] = Narrow<Bf16>(sum);
    }
  }
};

template <int kTokenTiles, int kBands, int kWarps, int kDeep, int kBlocks, bool kCast>
__global__ void __launch_bounds__(kWarps * 32, kBlocks) FewRowsKernel(const FewRowsArgs a) {
  extern __shared__ uint8_t cast[];
  using Block = FewRowsBlock<kTokenTiles, kBands, kWarps, kDeep>;
  const Block block{a};
  const int stages = static_cast<int>((a.in + kChunk * kWarps * kDeep - 1) / (kChunk * kWarps * kDeep));
  const int64_t tiles = (a.out + Block::kRows - 1) / Block::kRows;
  typename Block::Codes16 now, next;
  if (!a.early) AwaitPrevious();
  block.Fetch(blockIdx.x, 0, next);
  if (a.early) AwaitPrevious();
  float row_scale = 0;
  if constexpr (kCast) row_scale = CastRow(a, cast);
  const uint8_t* codes = kCast ? cast : a.codes;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    typename Block::Sums sums = {};
    for (int stage = 0; stage < stages; ++stage) {
      now = next;
      if (stage + 1 < stages) {
        block.Fetch(tile, stage + 1, next);
      } else if (tile + gridDim.x < tiles) {
        block.Fetch(tile + gridDim.x, 0, next);
      }
      block.Add(now, codes, stage, sums);
    }
    block.Store(tile, sums, row_scale);
  }
}

int Multiprocessors() {
  static const int count = [] {
    int device = 0, found = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    return found;
  }();
  return count;
}

template <int kTokenTiles, int kBands, int kWarps, int kDeep, int kBlocks>
int Launch(const FewRowsArgs& a, void* stream) {
  const int64_t rows = kBands * kOutputs, tiles = (a.out + rows - 1) / rows;
  const auto blocks = static_cast<unsigned>(min(tiles, static_cast<int64_t>(kBlocks) * Multiprocessors()));
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kWarps * 32);
  config.stream = On(stream);
  config.attrs = &early;
  config.numAttrs = a.early ? 1 : 0;
  if constexpr (kTokenTiles == 1) {
    if (a.codes == nullptr) {
      config.dynamicSmemBytes = static_cast<size_t>(a.in);
      return static_cast<int>(
          cudaLaunchKernelEx(&config, FewRowsKernel<kTokenTiles, kBands, kWarps, kDeep, kBlocks, true>, a));
    }
  }
  return static_cast<int>(
      cudaLaunchKernelEx(&config, FewRowsKernel<kTokenTiles, kBands, kWarps, kDeep, kBlocks, false>, a));
}

}  // namespace

int FewRows(const FewRowsArgs& given, void* stream) {
  if (given.count == 0 || given.out == 0) return 0;
  FewRowsArgs a = given;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (a.early) cudaStreamIsCapturing(On(stream), &status);
  a.early = status == cudaStreamCaptureStatusActive;
  if (a.count > kTokens) return Launch<2, 1, 8, 2, 2>(a, stream);
  return a.in < 8192 ? Launch<1, 1, 8, 2, 4>(a, stream) : Launch<1, 1, 16, 1, 2>(a, stream);
}

}  // namespace trireme::cuda
