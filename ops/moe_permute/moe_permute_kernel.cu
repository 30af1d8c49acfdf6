// Tokens to their experts' rows and back: copies, sums in fp32, and the positions themselves, sorted by
// expert with the tokens in order within each. Every row is read and written once.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256, kWarps = 4;

// Threads of a block: `x` along a row, the rest along tokens.
__device__ inline int64_t TokenOfThread() { return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; }

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) Spread(PermuteArgs a) {
  const int64_t token = TokenOfThread();
  if (token >= a.tokens) return;
  const int64_t* positions = a.positions + token * a.k;
  for (int64_t column = threadIdx.x * N; column < a.columns; column += blockDim.x * N) {
    const Pack<T, N> pack = LoadRaw<N>(static_cast<const T*>(a.from) + token * a.columns + column);
    for (int64_t choice = 0; choice < a.k; ++choice) {
      const int64_t row = positions[choice];
      if (row >= 0) *reinterpret_cast<Pack<T, N>*>(static_cast<T*>(a.to) + row * a.columns + column) = pack;
    }
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) Sum(PermuteArgs a) {
  const int64_t token = TokenOfThread();
  if (token >= a.tokens) return;
  const int64_t* positions = a.positions + token * a.k;
  for (int64_t column = threadIdx.x * N; column < a.columns; column += blockDim.x * N) {
    float sum[N] = {};
    for (int64_t copy = 0; copy < a.copies; ++copy) {
#pragma unroll 4
      for (int64_t choice = 0; choice < a.k; ++choice) {
        const int64_t row = positions[choice];
        if (row < 0) continue;
        float term[N];
        Load<T>(static_cast<const T*>(a.from) + (copy * a.copy_rows + row) * a.columns + column, term);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += term[i];
      }
    }
    Store<T>(static_cast<T*>(a.to) + token * a.columns + column, sum);
  }
}

template <typename Kernel>
int LaunchRows(const PermuteArgs& a, int pack, void* stream, const Kernel& kernel) {
  const int64_t packs = (a.columns + pack - 1) / pack;
  unsigned along = 1;
  while (along < kThreads && along < packs) along *= 2;
  const unsigned tokens = kThreads / along;
  kernel<<<static_cast<unsigned>((a.tokens + tokens - 1) / tokens), dim3(along, tokens), 0, On(stream)>>>(a);
  return Launched();
}

bool IsWide(const PermuteArgs& a, bool bf16) {
  return a.columns % (bf16 ? kWide<Bf16> : kWide<float>) == 0 && Aligned(a.from) && Aligned(a.to);
}

// The choices of a warp.
struct Chunk {
  int64_t begin, end;
  int number;

  __device__ explicit Chunk(int64_t size) {
    number = blockIdx.x * kWarps + threadIdx.x / 32;
    begin = static_cast<int64_t>(number) * kPositionChunk;
    end = begin + kPositionChunk < size ? begin + kPositionChunk : size;
  }
};

extern __shared__ int shared_counts[];

__global__ void __launch_bounds__(kWarps * 32) CountChunks(PositionArgs a) {
  int* counts = shared_counts + threadIdx.x / 32 * a.experts;
  const int lane = threadIdx.x % 32;
  const Chunk chunk(a.size);
  for (int expert = lane; expert < a.experts; expert += 32) counts[expert] = 0;
  __syncwarp();
  for (int64_t i = chunk.begin + lane; i < chunk.end; i += 32) {
    const int64_t expert = a.chosen[i];
    if (expert >= 0) atomicAdd(&counts[expert], 1);
  }
  __syncwarp();
  if (chunk.number >= a.chunks) return;
  for (int expert = lane; expert < a.experts; expert += 32)
    a.chunk_counts[static_cast<int64_t>(expert) * a.chunks + chunk.number] = counts[expert];
}

__device__ inline int SumUpTo(int x) {  // of this lane and those before it
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, x, step);
    if (static_cast<int>(threadIdx.x % 32) >= step) x += before;
  }
  return x;
}

// An expert a warp: counts become the number of choices in the chunks before.
__global__ void __launch_bounds__(32) ScanChunks(PositionArgs a) {
  int32_t* counts = a.chunk_counts + static_cast<int64_t>(blockIdx.x) * a.chunks;
  int total = 0;
  for (int first = 0; first < a.chunks; first += 32) {
    const int chunk = first + threadIdx.x, count = chunk < a.chunks ? counts[chunk] : 0;
    const int up_to = SumUpTo(count);
    if (chunk < a.chunks) counts[chunk] = total + up_to - count;
    total += __shfl_sync(0xffffffffu, up_to, 31);
  }
  if (threadIdx.x == 0) a.counts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kWarps * 32) Place(PositionArgs a) {
  int* next = shared_counts + threadIdx.x / 32 * a.experts;
  const int lane = threadIdx.x % 32;
  const Chunk chunk(a.size);
  if (chunk.number >= a.chunks) return;
  int base = 0;
  for (int first = 0; first < a.experts; first += 32) {
    const int expert = first + lane, count = expert < a.experts ? static_cast<int>(a.counts[expert]) : 0;
    const int up_to = SumUpTo(count);
    if (expert < a.experts)
      next[expert] = base + up_to - count + a.chunk_counts[static_cast<int64_t>(expert) * a.chunks + chunk.number];
    base += __shfl_sync(0xffffffffu, up_to, 31);
  }
  __syncwarp();
  for (int64_t first = chunk.begin; first < chunk.end; first += 32) {
    const int64_t i = first + lane;
    const int expert = i < chunk.end ? static_cast<int>(a.chosen[i]) : -1;
    const unsigned same = __match_any_sync(0xffffffffu, expert);
    const int before = __popc(same & ((1u << lane) - 1));
    const int64_t position = expert < 0 ? -1 : next[expert] + before;
    if (i < chunk.end) a.positions[i] = position;
    __syncwarp();
    if (expert >= 0 && before == 0) next[expert] += __popc(same);
    __syncwarp();
  }
}

}  // namespace

int SpreadRows(const PermuteArgs& a, bool bf16, void* stream) {
  if (a.tokens == 0 || a.columns == 0) return 0;
  return ByElement(bf16, IsWide(a, bf16), [&](auto type, auto pack) {
    constexpr int N = decltype(pack)::value;
    return LaunchRows(a, N, stream, Spread<decltype(type), N>);
  });
}

int SumRows(const PermuteArgs& a, bool bf16, void* stream) {
  if (a.tokens == 0 || a.columns == 0) return 0;
  return ByElement(bf16, IsWide(a, bf16), [&](auto type, auto pack) {
    constexpr int N = decltype(pack)::value;
    return LaunchRows(a, N, stream, Sum<decltype(type), N>);
  });
}

int ExpertPositions(const PositionArgs& a, void* stream) {
  const auto blocks = static_cast<unsigned>((a.chunks + kWarps - 1) / kWarps);
  const size_t shared = sizeof(int) * kWarps * static_cast<size_t>(a.experts);
  if (blocks > 0) CountChunks<<<blocks, kWarps * 32, shared, On(stream)>>>(a);
  ScanChunks<<<static_cast<unsigned>(a.experts), 32, 0, On(stream)>>>(a);
  if (blocks > 0) Place<<<blocks, kWarps * 32, shared, On(stream)>>>(a);
  return Launched();
}

}  // namespace trireme::cuda
