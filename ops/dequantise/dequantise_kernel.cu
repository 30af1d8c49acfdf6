// Weights of a packed part, decoded into its matrix: a thread looks up eight of a run, which mostly share a scale, and
// writes them at once. Bytes are what it costs: half of one is read and an element written for each weight.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256, kTogether = 8;

// Of a block of the file's matrix, the `index`th that the run touches. The host's arithmetic, which does not fuse the
// two.
__device__ inline float ScaleOf(const DequantiseArgs& args, const float* map, int64_t run, int64_t block,
                                int64_t index) {
  const int64_t place = run * args.run_blocks + index;
  if (args.nested == nullptr) return static_cast<const float*>(args.scales)[place];
  const float value = map[static_cast<const uint8_t*>(args.scales)[place]];
  return __fadd_rn(__fmul_rn(value, args.nested[block >> kScaleShift]), args.nested[args.nested_count]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) Dequantise4(DequantiseArgs args) {
  __shared__ float values[16], map[256];
  if (threadIdx.x < 16) values[threadIdx.x] = args.tables[threadIdx.x];
  map[threadIdx.x] = args.tables[16 + threadIdx.x];
  __syncthreads();
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kTogether;
  if (first >= args.run_size) return;
  const int count = static_cast<int>(min(static_cast<int64_t>(kTogether), args.run_size - first));
  for (int64_t run = blockIdx.y; run < args.runs; run += gridDim.y) {
    const int64_t start = args.start + run * args.matrix_columns, first_block = start >> args.block_shift;
    const uint8_t* codes = args.codes + run * args.run_code_bytes + first / 2;
    T* to = static_cast<T*>(args.matrix) + run * args.stride + first;
    float decoded[kTogether];
    int64_t block = -1;
    float scale = 0;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (i >= count) break;
      const int64_t own = (start + first + i) >> args.block_shift;
      if (own != block) {
        block = own;
        scale = ScaleOf(args, map, run, block, block - first_block);
      }
      const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
      decoded[i] = __fmul_rn(values[code], scale);
    }
    if (count == kTogether && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
#pragma unroll
      for (int i = 0; i < kTogether; i += kWide<T>) {
        float pack[kWide<T>];
#pragma unroll
        for (int j = 0; j < kWide<T>; ++j) pack[j] = decoded[i + j];
        Store<T>(to + i, pack);
      }
    } else {
      for (int i = 0; i < count; ++i) to[i] = Narrow<T>(decoded[i]);
    }
  }
}

// A thread decodes one weight after another of a row; those of a warp lie together.
template <typename T>
__global__ void __launch_bounds__(kThreads) Dequantise8(DequantiseArgs args) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t run = blockIdx.y; run < args.runs; run += gridDim.y) {
    const auto* codes = reinterpret_cast<const int8_t*>(args.codes) + run * args.run_code_bytes;
    const float* scales = static_cast<const float*>(args.scales) + run * args.run_blocks;
    T* to = static_cast<T*>(args.matrix) + run * args.stride;
    for (int64_t i = first; i < args.run_size; i += step) {
      const float scale =
          args.run_blocks == 1 ? scales[0] : scales[i / args.matrix_columns];  // a run of whole rows begins with one
      to[i] = Narrow<T>(__fmul_rn(__fmul_rn(static_cast<float>(codes[i]), scale), args.int8_fraction));
    }
  }
}

constexpr int64_t kRuns = 65535;  // rows of a grid at most

}  // namespace

int Dequantise(const DequantiseArgs& args, bool bf16, void* stream) {
  if (args.runs == 0 || args.run_size == 0) return 0;
  const int64_t packs = (args.run_size + kTogether - 1) / kTogether;
  const dim3 grid(static_cast<unsigned>((packs + kThreads - 1) / kThreads),
                  static_cast<unsigned>(args.runs < kRuns ? args.runs : kRuns));
  if (args.tables == nullptr && bf16) {
    Dequantise8<Bf16><<<grid, kThreads, 0, On(stream)>>>(args);
  } else if (args.tables == nullptr) {
    Dequantise8<float><<<grid, kThreads, 0, On(stream)>>>(args);
  } else if (bf16) {
    Dequantise4<Bf16><<<grid, kThreads, 0, On(stream)>>>(args);
  } else {
    Dequantise4<float><<<grid, kThreads, 0, On(stream)>>>(args);
  }
  return Launched();
}

}  // namespace trireme::cuda
