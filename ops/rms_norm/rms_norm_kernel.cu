// RMSNorm of x or x + branch, a row per block: read once, kept in registers. Backward the weight's gradient
// is summed per block over the rows that it takes in turn.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

template <typename T, int N, int V>
__global__ void __launch_bounds__(kThreadsPerRow) Forward(RmsNormArgs a) {
  LetNextStart();
  const int64_t begin = blockIdx.x * a.columns;
  const int packs = static_cast<int>(a.columns / N);
  float x[V][N], squares = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int pack = threadIdx.x + v * blockDim.x;
    if (pack >= packs) continue;
    const int64_t at = begin + static_cast<int64_t>(pack) * N;
    Load<T>(static_cast<const T*>(a.x) + at, x[v]);
    if (a.branch != nullptr) {
      float branch[N];
      Load<T>(static_cast<const T*>(a.branch) + at, branch);
#pragma unroll
      for (int i = 0; i < N; ++i) x[v][i] = Rounded<T>(x[v][i] + branch[i]);
      Store<T>(static_cast<T*>(a.sum) + at, x[v]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) squares += x[v][i] * x[v][i];
  }
  const float scale = rsqrtf(BlockSum(squares) / static_cast<float>(a.columns) + a.eps);
  if (threadIdx.x == 0) a.scale[blockIdx.x] = scale;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int pack = threadIdx.x + v * blockDim.x;
    if (pack >= packs) continue;
    float weight[N], y[N];
    Load<T>(static_cast<const T*>(a.weight) + pack * N, weight);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = Rounded<T>(x[v][i] * scale) * weight[i];
    Store<T>(static_cast<T*>(a.y) + begin + static_cast<int64_t>(pack) * N, y);
  }
}

// Rows wait in registers as they lie in memory, so that more blocks fit a multiprocessor.
template <typename T, int N, int V>
__global__ void __launch_bounds__(kThreadsPerRow, V == 1 ? 3 : 1) Backward(RmsNormBackwardArgs a) {
  const int packs = static_cast<int>(a.columns / N);
  Pack<T, N> weight[V];
  float sums[V][N];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int pack = threadIdx.x + v * blockDim.x;
#pragma unroll
    for (int i = 0; i < N; ++i) sums[v][i] = 0;
    if (pack < packs) weight[v] = LoadRaw<N>(static_cast<const T*>(a.weight) + pack * N);
  }
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float scale = a.scale[row];
    Pack<T, N> x[V], gradient[V], carried[V];
    float shared = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int pack = threadIdx.x + v * blockDim.x;
      if (pack >= packs) continue;
      const int64_t at = row * a.columns + static_cast<int64_t>(pack) * N;
      x[v] = LoadRaw<N>(static_cast<const T*>(a.x) + at);
      gradient[v] = LoadRaw<N>(static_cast<const T*>(a.y_gradient) + at);
      if (a.carried != nullptr) carried[v] = LoadRaw<N>(static_cast<const T*>(a.carried) + at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float product = Wide(gradient[v].at[i]) * (Wide(x[v].at[i]) * scale);
        sums[v][i] += product;
        shared += product * Wide(weight[v].at[i]);
      }
    }
    shared = BlockSum(shared) / static_cast<float>(a.columns);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int pack = threadIdx.x + v * blockDim.x;
      if (pack >= packs) continue;
      float out[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float inner = Wide(gradient[v].at[i]) * Wide(weight[v].at[i]);
        out[i] = (inner - Wide(x[v].at[i]) * scale * shared) * scale;
        if (a.carried != nullptr) out[i] += Wide(carried[v].at[i]);
      }
      Store<T>(static_cast<T*>(a.x_gradient) + row * a.columns + static_cast<int64_t>(pack) * N, out);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int pack = threadIdx.x + v * blockDim.x;
    if (pack >= packs) continue;
    float* to = a.weight_sums + blockIdx.x * a.columns + static_cast<int64_t>(pack) * N;
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = sums[v][i];
  }
}

struct RowShape {
  int packs_per_thread, threads;
};
RowShape ShapeOf(int64_t columns, int pack) {
  const int packs = static_cast<int>(columns / pack);
  int per_thread = 1;
  while (per_thread * kThreadsPerRow < packs) per_thread *= 2;
  const int threads = (packs + per_thread - 1) / per_thread;
  return {per_thread, (threads + 31) / 32 * 32};
}

// Calls launch(Count<V>) for V of 1, 2 and 4.
template <typename Launch>
int ByPacks(int per_thread, const Launch& launch) {
  switch (per_thread) {
    case 1:
      return launch(Count<1>{});
    case 2:
      return launch(Count<2>{});
    case kPacksPerThread:
      return launch(Count<kPacksPerThread>{});
    default:
      return cudaErrorInvalidConfiguration;
  }
}

bool IsWide(int64_t columns, bool bf16) { return columns % (bf16 ? kWide<Bf16> : kWide<float>) == 0; }

}  // namespace

int RmsNorm(const RmsNormArgs& a, bool bf16, void* stream) {
  if (a.rows == 0) return 0;
  const bool wide = IsWide(a.columns, bf16) && Aligned(a.x) && Aligned(a.branch) && Aligned(a.weight);
  return ByElement(bf16, wide, [&](auto type, auto pack) {
    const RowShape shape = ShapeOf(a.columns, decltype(pack)::value);
    return ByPacks(shape.packs_per_thread, [&](auto packs) {
      Forward<decltype(type), decltype(pack)::value, decltype(packs)::value>
          <<<static_cast<unsigned>(a.rows), shape.threads, 0, On(stream)>>>(a);
      return Launched();
    });
  });
}

int RmsNormBackward(const RmsNormBackwardArgs& a, bool bf16, void* stream) {
  const bool wide =
      IsWide(a.columns, bf16) && Aligned(a.x) && Aligned(a.weight) && Aligned(a.y_gradient) && Aligned(a.carried);
  return ByElement(bf16, wide, [&](auto type, auto pack) {
    const RowShape shape = ShapeOf(a.columns, decltype(pack)::value);
    return ByPacks(shape.packs_per_thread, [&](auto packs) {
      Backward<decltype(type), decltype(pack)::value, decltype(packs)::value>
          <<<static_cast<unsigned>(a.blocks), shape.threads, 0, On(stream)>>>(a);
      return Launched();
    });
  });
}

}  // namespace trireme::cuda
