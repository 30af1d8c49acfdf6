// The gradients of all experts' weights in one launch: sum[e] (+)= output_gradientᵀ x over the rows of expert e, bf16
// operands, fp32 sums that go straight into the fp32 gradient. Needs Hopper; other GPUs take ATen's products
// (ops/grouped_linear/cuda.cc).
//
// A block computes tiles of 128 output columns by 256 input columns: one warp copies 64 rows of both operands at a time
// into a ring of stages, another clears what came along of the next expert, two warpgroups multiply 64 of the 128
// columns each. Two blocks are a cluster, with the same input columns, of which each copies half for both. Both
// operands are multiplied as they are in memory, by rows. Clusters take tiles in turns, those of the largest experts
// first.
#include "ops/cuda/hopper.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kRows = 64;     // of a stage, that are summed over
constexpr int kColumns = 64;  // of a box, one row of it is 128 bytes
constexpr int kOut = 128, kIn = 256, kInBoxes = kIn / kColumns;
constexpr int kStages = 4, kBlocks = 2, kMultiplying = 2;
constexpr int kThreads = (1 + kMultiplying) * kWarpgroup;
constexpr int kRowsOfProduct = 16;
constexpr int kStoredColumns = 32;  // of fp32, also 128 bytes
constexpr int kFewRegisters = 40, kManyRegisters = 232;

using Box = Bf16[kRows * kColumns];

struct Shared {
  alignas(1024) Box output_gradient[kStages][kMultiplying];
  alignas(1024) Box x[kStages][kInBoxes];
  alignas(1024) float results[kMultiplying][2][kOut / kMultiplying * kStoredColumns];
  uint64_t filled[kStages], cleared[kStages], free[kStages];
  uint16_t order[kMostExperts];  // of the experts, the one with the most rows first
};
constexpr uint32_t kStageBytes = sizeof(Box) * (kMultiplying + kInBoxes);

struct Work {
  const int64_t* ends;  // [experts]
  int experts, out_pairs, in_tiles, tiles;
  bool add;
};

// A tile for each block of a cluster.
struct Tiles {
  int expert, out, in;  // of the cluster's first block: the first columns
  int row, rows;
};
__device__ inline int RowsOf(const Work& work, int expert) {
  return static_cast<int>(work.ends[expert] - (expert == 0 ? 0 : work.ends[expert - 1]));
}
__device__ inline Tiles TilesAt(const Work& work, const uint16_t* order, int index) {
  const int of_expert = work.out_pairs * work.in_tiles, expert = order[index / of_expert], rest = index % of_expert;
  const int rows = RowsOf(work, expert);
  return {expert, rest % work.out_pairs * kBlocks * kOut, rest / work.out_pairs * kIn,
          static_cast<int>(work.ends[expert]) - rows, rows};
}

// Each thread of a cluster goes through the same tiles. Every second round runs backwards, so that no cluster always
// gets the larger ones.
template <typename Run>
__device__ inline void ForEachTile(const Work& work, const uint16_t* order, const Run& run) {
  const int clusters = static_cast<int>(gridDim.x) / kBlocks, cluster = static_cast<int>(blockIdx.x) / kBlocks;
  bool backwards = false;
  for (int first = 0; first < work.tiles; first += clusters, backwards = !backwards) {
    const int index = first + (backwards ? clusters - 1 - cluster : cluster);
    if (index < work.tiles) run(TilesAt(work, order, index));
  }
}

// By their rows, all threads of a block. `rows` is memory to work in.
__device__ inline void SortExperts(const Work& work, int* rows, uint16_t* order) {
  for (int expert = threadIdx.x; expert < work.experts; expert += kThreads) rows[expert] = RowsOf(work, expert);
  __syncthreads();
  for (int expert = threadIdx.x; expert < work.experts; expert += kThreads) {
    int before = 0;
    for (int other = 0; other < work.experts; ++other)
      before += rows[other] > rows[expert] || (rows[other] == rows[expert] && other < expert);
    order[before] = static_cast<uint16_t>(expert);
  }
}

// Where the ring is: all that use it go through it in the same order.
struct RingPosition {
  int stage = 0;
  uint32_t parity = 0;

  __device__ inline void Advance() {
    stage = (stage + 1) % kStages;
    if (stage == 0) parity ^= 1;
  }
};

// One thread. Rows after those of the expert come along in its last stage.
__device__ inline void Fill(Shared& shared, const CUtensorMap* output_gradient, const CUtensorMap* x,
                            const Work& work) {
  constexpr uint16_t kBoth = (1 << kBlocks) - 1;
  const int block = static_cast<int>(BlockInCluster());
  RingPosition at;
  ForEachTile(work, shared.order, [&](const Tiles& tiles) {
    for (int row = 0; row < tiles.rows; row += kRows, at.Advance()) {
      WaitFor(&shared.free[at.stage], at.parity ^ 1);
      uint64_t* filled = &shared.filled[at.stage];
      ArriveExpecting(filled, kStageBytes);
      for (int box = 0; box < kMultiplying; ++box) {
        LoadTile(output_gradient, shared.output_gradient[at.stage][box], filled,
                 tiles.out + block * kOut + box * kColumns, tiles.row + row);
      }
      for (int i = 0; i < kInBoxes / kBlocks; ++i) {
        const int box = block * (kInBoxes / kBlocks) + i;
        LoadTileInto(kBoth, x, shared.x[at.stage][box], filled, tiles.in + box * kColumns, tiles.row + row);
      }
    }
  });
}

// Rows of a stage from `from` on, up to the next whole product, become zeros.
__device__ inline void ClearRows(Shared& shared, int stage, int from) {
  constexpr int kPacks = kColumns * sizeof(Bf16) / 16;
  const int packs = (kRowsOfProduct - from % kRowsOfProduct) * kPacks;
  for (int box = 0; box < kMultiplying + kInBoxes; ++box) {
    Bf16* to = box < kMultiplying ? shared.output_gradient[stage][box] : shared.x[stage][box - kMultiplying];
    for (int pack = threadIdx.x % 32; pack < packs; pack += 32)
      reinterpret_cast<uint4*>(to + from * kColumns)[pack] = make_uint4(0, 0, 0, 0);
  }
  PublishShared();
}

// One warp, while earlier stages are multiplied. They must be zeros in both operands: what is there may be NaN.
__device__ inline void ClearForeignRows(Shared& shared, const Work& work) {
  RingPosition at;
  ForEachTile(work, shared.order, [&](const Tiles& tiles) {
    for (int left = tiles.rows; left > 0; left -= kRows, at.Advance()) {
      WaitFor(&shared.filled[at.stage], at.parity);
      if (left < kRows && left % kRowsOfProduct != 0) ClearRows(shared, at.stage, left);
      __syncwarp();
      if (threadIdx.x % 32 == 0) Arrive(&shared.cleared[at.stage]);
    }
  });
}

// A stage has been multiplied: each warp tells the copying warps of both blocks, for either copies into both.
__device__ inline void Release(Shared& shared, int stage) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < kBlocks) ArriveAt(&shared.free[stage], lane);
}

// The first rows of a stage, 16 at a time.
template <int kProducts>
__device__ inline void MultiplyRows(const Shared& shared, int stage, int group, float (&sums)[kSumsPerThread]) {
  BeginProducts();
#pragma unroll
  for (int i = 0; i < kProducts; ++i) {
    constexpr int kStep = kRowsOfProduct * kColumns;
    Multiply(sums, Operand(shared.output_gradient[stage][group] + i * kStep, sizeof(Box)),
             Operand(shared.x[stage][0] + i * kStep, sizeof(Box)));
  }
  CloseProducts();
}

// The same with a count that only the tile knows. The compiler wants a path of its own for each.
__device__ inline void MultiplyLastRows(const Shared& shared, int stage, int group, int rows,
                                        float (&sums)[kSumsPerThread]) {
  static_assert(kRows / kRowsOfProduct == 4);
  if (rows <= kRowsOfProduct) {
    MultiplyRows<1>(shared, stage, group, sums);
  } else if (rows <= 2 * kRowsOfProduct) {
    MultiplyRows<2>(shared, stage, group, sums);
  } else if (rows <= 3 * kRowsOfProduct) {
    MultiplyRows<3>(shared, stage, group, sums);
  } else {
    MultiplyRows<4>(shared, stage, group, sums);
  }
}

__device__ inline void WaitForStage(Shared& shared, const RingPosition& at) {
  WaitFor(&shared.filled[at.stage], at.parity);
  WaitFor(&shared.cleared[at.stage], at.parity);
}

// The sums over a tile's rows. A stage is released once the products of the next one have been issued.
__device__ inline void SumRows(Shared& shared, RingPosition& at, int group, int rows, float (&sums)[kSumsPerThread]) {
#pragma unroll
  for (int i = 0; i < kSumsPerThread; ++i) sums[i] = 0.0f;
  int before = -1;
  for (int left = rows; left >= kRows; left -= kRows, at.Advance()) {
    WaitForStage(shared, at);
    MultiplyRows<kRows / kRowsOfProduct>(shared, at.stage, group, sums);
    WaitForProducts<1>();
    if (before >= 0) Release(shared, before);
    before = at.stage;
  }
  WaitForProducts<0>();
  KeepInPlace(sums);
  if (before >= 0) Release(shared, before);
  if (rows % kRows == 0) return;
  WaitForStage(shared, at);
  MultiplyLastRows(shared, at.stage, group, rows % kRows, sums);
  WaitForProducts<0>();
  KeepInPlace(sums);
  Release(shared, at.stage);
  at.Advance();
}

// 32 columns at a time through shared memory; while one half of it is stored the other is written.
__device__ inline void StoreSums(Shared& shared, const CUtensorMap* result, const Work& work, const Tiles& tiles,
                                 int out, int group, const float (&sums)[kSumsPerThread]) {
  const int thread = threadIdx.x % kWarpgroup, lane = thread % 32, row = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int part = 0; part < kIn / kStoredColumns; ++part) {
    float* to = shared.results[group][part % 2];
    if (thread == 0) WaitForReads<1>();
    SyncThreads(1 + group, kWarpgroup);
#pragma unroll
    for (int i = 0; i < kStoredColumns / 8; ++i) {  // 8 columns: 2 of each lane, of its row and of the 8th after it
      const int pack = (i * 2 + lane % 4 / 2) ^ (row % 8), at = row * kStoredColumns + pack * 4 + lane % 2 * 2;
      const float* of_lane = sums + (part * (kStoredColumns / 8) + i) * 4;
      *reinterpret_cast<float2*>(to + at) = make_float2(of_lane[0], of_lane[1]);
      *reinterpret_cast<float2*>(to + at + 8 * kStoredColumns) = make_float2(of_lane[2], of_lane[3]);
    }
    PublishShared();
    SyncThreads(1 + group, kWarpgroup);
    if (thread != 0) continue;
    const int column = tiles.in + part * kStoredColumns;
    if (work.add) {
      AddTile(result, to, column, out, tiles.expert);
    } else {
      StoreTile(result, to, column, out, tiles.expert);
    }
    CloseStores();
  }
}

__device__ inline void MultiplyTiles(Shared& shared, const CUtensorMap* result, const Work& work) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup - 1, block = static_cast<int>(BlockInCluster());
  RingPosition at;
  float sums[kSumsPerThread];
  ForEachTile(work, shared.order, [&](const Tiles& tiles) {
    if (tiles.rows == 0 && work.add) return;
    SumRows(shared, at, group, tiles.rows, sums);
    StoreSums(shared, result, work, tiles, tiles.out + block * kOut + group * (kOut / kMultiplying), group, sums);
  });
  if (threadIdx.x % kWarpgroup == 0) WaitForStores();
}

__device__ inline void Prepare(Shared& shared, const Work& work) {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      InitBarrier(&shared.filled[stage], 1);
      InitBarrier(&shared.cleared[stage], 1);
      InitBarrier(&shared.free[stage], kBlocks * kMultiplying * kWarpgroup / 32);
    }
    PublishBarriers();
  }
  static_assert(sizeof(shared.results) >= kMostExperts * sizeof(int));
  SortExperts(work, reinterpret_cast<int*>(shared.results), shared.order);
  SyncCluster();
}

__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    GroupedGradientKernel(const __grid_constant__ CUtensorMap output_gradient, const __grid_constant__ CUtensorMap x,
                          const __grid_constant__ CUtensorMap result, const Work work) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Prepare(shared, work);
  if (threadIdx.x < kWarpgroup) {
    FewerRegisters<kFewRegisters>();
    if (threadIdx.x == 0) Fill(shared, &output_gradient, &x, work);
    if (threadIdx.x / 32 == 1) ClearForeignRows(shared, work);
    __syncwarp();
  } else {
    MoreRegisters<kManyRegisters>();
    MultiplyTiles(shared, &result, work);
  }
  SyncCluster();  // the other block no longer copies into this one, or arrives at its barriers
}

using EncodeFunction = decltype(&cuTensorMapEncodeTiled);

// The driver's, so that nothing links the driver; nullptr: it has none.
EncodeFunction FindEncode() {
  static const EncodeFunction found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    constexpr const char* kName = "cuTensorMapEncodeTiled";
#if CUDART_VERSION >= 12050
    constexpr unsigned kSince = 12000;  // CUDA 12.0
    const auto code = cudaGetDriverEntryPointByVersion(kName, &function, kSince, cudaEnableDefault, &result);
#else
    const auto code = cudaGetDriverEntryPoint(kName, &function, cudaEnableDefault, &result);
#endif
    const bool is_there = code == cudaSuccess && result == cudaDriverEntryPointSuccess;
    return reinterpret_cast<EncodeFunction>(is_there ? function : nullptr);
  }();
  return found;
}

// Boxes whose rows are 128 bytes, swizzled as the products read them.
struct MapShape {
  CUtensorMapDataType type;
  int element_bytes;
  int dims;
  uint64_t sizes[3], strides[2];  // the strides in bytes, of the first dim none
  uint32_t box_rows;
};
bool Encode(const MapShape& shape, const void* memory, CUtensorMap* map) {
  const uint32_t box[3] = {128u / shape.element_bytes, shape.box_rows, 1}, every[3] = {1, 1, 1};
  return FindEncode()(map, shape.type, shape.dims, const_cast<void*>(memory), shape.sizes, shape.strides, box, every,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
MapShape MatrixOf(int64_t rows, int64_t columns) {
  return {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
          sizeof(Bf16),
          2,
          {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
          {static_cast<uint64_t>(columns) * sizeof(Bf16)},
          kRows};
}
MapShape SumsOf(const GroupedGradientArgs& a) {
  const auto in = static_cast<uint64_t>(a.in), out = static_cast<uint64_t>(a.out);
  return {CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
          sizeof(float),
          3,
          {in, out, static_cast<uint64_t>(a.experts)},
          {in * sizeof(float), static_cast<uint64_t>(a.sum_stride) * sizeof(float)},
          kOut / kMultiplying};
}

int ClustersOfDevice() {
  int device = 0, processors = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 1;
  if (cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 1;
  return processors < kBlocks ? 1 : processors / kBlocks;
}

}  // namespace

int GroupedGradient(const GroupedGradientArgs& a, void* stream) {
  if (FindEncode() == nullptr || a.experts > kMostExperts) return cudaErrorNotSupported;
  CUtensorMap output_gradient, x, sum;
  if (!Encode(MatrixOf(a.rows, a.out), a.output_gradient, &output_gradient) ||
      !Encode(MatrixOf(a.rows, a.in), a.x, &x) || !Encode(SumsOf(a), a.sum, &sum))
    return cudaErrorInvalidValue;
  const auto up = [](int64_t size, int64_t of) { return static_cast<int>((size + of - 1) / of); };
  Work work{.ends = a.ends,
            .experts = static_cast<int>(a.experts),
            .out_pairs = up(a.out, kBlocks * kOut),
            .in_tiles = up(a.in, kIn),
            .add = a.add};
  work.tiles = static_cast<int>(a.experts) * work.out_pairs * work.in_tiles;
  if (work.tiles == 0) return 0;
  const int most = ClustersOfDevice(), clusters = work.tiles < most ? work.tiles : most;
  const cudaError_t raised =
      cudaFuncSetAttribute(GroupedGradientKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  if (raised != cudaSuccess) return raised;
  GroupedGradientKernel<<<clusters * kBlocks, kThreads, sizeof(Shared), On(stream)>>>(output_gradient, x, sum, work);
  return Launched();
}

}  // namespace trireme::cuda
