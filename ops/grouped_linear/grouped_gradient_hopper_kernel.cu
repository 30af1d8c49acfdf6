// The gradients of all experts' weights in one launch: sum[e] (+)= output_gradientᵀ x over the rows of expert e, bf16
// operands, fp32 sums that go straight into the fp32 gradient. Needs Hopper; other GPUs take ATen's products
// (ops/grouped_linear/cuda.cc).
//
// A block computes tiles of 128 output columns by 256 input columns: one warp copies 64 rows of both operands at a time
// into a ring of stages, two warpgroups multiply 64 of the 128 columns each. Two blocks are a cluster, with the same
// input columns, of which each copies half for both. Both operands are multiplied as they are in memory, by rows.
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
  uint64_t filled[kStages], free[kStages];
};
constexpr uint32_t kStageBytes = sizeof(Box) * (kMultiplying + kInBoxes);

struct Work {
  const int64_t* ends;  // [experts]
  int out_pairs, in_tiles, tiles;
  bool add;
};

// A tile for each block of a cluster.
struct Tiles {
  int expert, out, in;  // of the cluster's first block: the first columns
  int row, rows;
};
__device__ inline Tiles TilesAt(const Work& work, int index) {
  const int of_expert = work.out_pairs * work.in_tiles, expert = index / of_expert, rest = index % of_expert;
  const int64_t begin = expert == 0 ? 0 : work.ends[expert - 1], end = work.ends[expert];
  return {expert, rest % work.out_pairs * kBlocks * kOut, rest / work.out_pairs * kIn, static_cast<int>(begin),
          static_cast<int>(end - begin)};
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
__device__ inline void Fill(Shared& shared, const CUtensorMap* output_gradient, const CUtensorMap* x, const Work& work,
                            int cluster, int clusters) {
  constexpr uint16_t kBoth = (1 << kBlocks) - 1;
  const int block = static_cast<int>(BlockInCluster());
  RingPosition at;
  for (int index = cluster; index < work.tiles; index += clusters) {
    const Tiles tiles = TilesAt(work, index);
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
  }
}

// A warpgroup's part of both operands in a stage: rows from `from` on, up to the next whole product, become zeros. The
// other warpgroup may have written the same zeros, and read them.
__device__ inline void ClearRows(Shared& shared, int stage, int group, int from) {
  constexpr int kPacks = kColumns * sizeof(Bf16) / 16;
  const int until = (from + kRowsOfProduct - 1) / kRowsOfProduct * kRowsOfProduct;
  for (int i = threadIdx.x % kWarpgroup; i < (until - from) * kPacks * (1 + kInBoxes); i += kWarpgroup) {
    const int box = i / ((until - from) * kPacks), pack = i % ((until - from) * kPacks);
    Bf16* to = box == 0 ? shared.output_gradient[stage][group] : shared.x[stage][box - 1];
    reinterpret_cast<uint4*>(to + from * kColumns)[pack] = make_uint4(0, 0, 0, 0);
  }
  PublishShared();
  SyncThreads(1 + group, kWarpgroup);
}

// A stage has been multiplied: each warp tells the copying warps of both blocks, for either copies into both.
__device__ inline void Release(Shared& shared, int stage) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < kBlocks) ArriveAt(&shared.free[stage], lane);
}

// 16 rows of a stage.
__device__ inline void MultiplyRows(const Shared& shared, int stage, int group, int first,
                                    float (&sums)[kSumsPerThread], bool add) {
  Multiply(sums, Operand(shared.output_gradient[stage][group] + first * kColumns, sizeof(Box)),
           Operand(shared.x[stage][0] + first * kColumns, sizeof(Box)), add);
}

// The sums over a tile's rows. A stage is released once the products of the next one have been issued.
__device__ inline void SumRows(Shared& shared, RingPosition& at, int group, int rows, float (&sums)[kSumsPerThread]) {
#pragma unroll
  for (int i = 0; i < kSumsPerThread; ++i) sums[i] = 0.0f;
  int before = -1;
  for (int left = rows; left >= kRows; left -= kRows, at.Advance()) {
    WaitFor(&shared.filled[at.stage], at.parity);
    BeginProducts();
#pragma unroll
    for (int row = 0; row < kRows; row += kRowsOfProduct) MultiplyRows(shared, at.stage, group, row, sums, true);
    CloseProducts();
    WaitForProducts<1>();
    if (before >= 0) Release(shared, before);
    before = at.stage;
  }
  WaitForProducts<0>();
  KeepInPlace(sums);
  if (before >= 0) Release(shared, before);
  const int left = rows % kRows;
  if (left == 0) return;
  WaitFor(&shared.filled[at.stage], at.parity);
  if (left % kRowsOfProduct != 0) ClearRows(shared, at.stage, group, left);
#pragma unroll 1
  for (int row = 0; row < left; row += kRowsOfProduct) {
    BeginProducts();
    MultiplyRows(shared, at.stage, group, row, sums, true);
    CloseProducts();
    WaitForProducts<0>();
    KeepInPlace(sums);
  }
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

__device__ inline void MultiplyTiles(Shared& shared, const CUtensorMap* result, const Work& work, int cluster,
                                     int clusters) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup - 1, block = static_cast<int>(BlockInCluster());
  RingPosition at;
  float sums[kSumsPerThread];
  for (int index = cluster; index < work.tiles; index += clusters) {
    const Tiles tiles = TilesAt(work, index);
    if (tiles.rows == 0 && work.add) continue;
    SumRows(shared, at, group, tiles.rows, sums);
    StoreSums(shared, result, work, tiles, tiles.out + block * kOut + group * (kOut / kMultiplying), group, sums);
  }
  if (threadIdx.x % kWarpgroup == 0) WaitForStores();
}

__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    GroupedGradientKernel(const __grid_constant__ CUtensorMap output_gradient, const __grid_constant__ CUtensorMap x,
                          const __grid_constant__ CUtensorMap result, const Work work) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      InitBarrier(&shared.filled[stage], 1);
      InitBarrier(&shared.free[stage], kBlocks * kMultiplying * kWarpgroup / 32);
    }
    PublishBarriers();
  }
  SyncCluster();
  const int cluster = static_cast<int>(blockIdx.x) / kBlocks, clusters = static_cast<int>(gridDim.x) / kBlocks;
  if (threadIdx.x < kWarpgroup) {
    FewerRegisters<kFewRegisters>();
    if (threadIdx.x == 0) Fill(shared, &output_gradient, &x, work, cluster, clusters);
  } else {
    MoreRegisters<kManyRegisters>();
    MultiplyTiles(shared, &result, work, cluster, clusters);
  }
  SyncCluster();  // the other block no longer copies into this one, or arrives at its barriers
}

using EncodeFunction = decltype(&cuTensorMapEncodeTiled);

// The driver's; nullptr: it has none.
EncodeFunction FindEncode() {
  static const EncodeFunction found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned kSince = 12000;  // CUDA 12.0
    const auto code =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &result);
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
MapShape RowsOf(int64_t rows, int64_t columns) {
  return {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
          sizeof(Bf16),
          2,
          {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
          {static_cast<uint64_t>(columns) * sizeof(Bf16)},
          kRows};
}
MapShape SumOf(const GroupedGradientArgs& a) {
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
  if (FindEncode() == nullptr) return cudaErrorNotSupported;
  CUtensorMap output_gradient, x, sum;
  if (!Encode(RowsOf(a.rows, a.out), a.output_gradient, &output_gradient) || !Encode(RowsOf(a.rows, a.in), a.x, &x) ||
      !Encode(SumOf(a), a.sum, &sum))
    return cudaErrorInvalidValue;
  const auto up = [](int64_t size, int64_t of) { return static_cast<int>((size + of - 1) / of); };
  Work work{.ends = a.ends, .out_pairs = up(a.out, kBlocks * kOut), .in_tiles = up(a.in, kIn), .add = a.add};
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
