// Statistics of logits in one pass (a running largest with the sum of exponentials beside it) and their
// gradient in place.
#include <math_constants.h>

#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 512;

struct Running {
  float largest, sum;
};

__device__ inline Running Merged(Running a, Running b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -CUDART_INF_F) return {largest, 0};
  return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}

__device__ inline Running WarpMerged(Running r) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    r = Merged(r, {__shfl_xor_sync(0xffffffffu, r.largest, step), __shfl_xor_sync(0xffffffffu, r.sum, step)});
  }
  return r;
}

template <int N>
__device__ inline Running With(Running r, const float (&x)[N]) {
  float largest = r.largest;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = fmaxf(largest, x[i]);
  if (largest == -CUDART_INF_F) return r;
  float sum = r.sum * __expf(r.largest - largest);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += __expf(x[i] - largest);
  return {largest, sum};
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) Statistics(LogitArgs a, float* largest, float* sum, float* picked) {
  __shared__ Running parts[kThreads / 32];
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(a.logits) + row * a.stride;
  Running running{-CUDART_INF_F, 0};
  const int64_t packs = a.columns / N;
  for (int64_t pack = threadIdx.x; pack < packs; pack += kThreads) {
    float x[N];
    Load<T>(logits + pack * N, x);
    running = With(running, x);
  }
  for (int64_t column = packs * N + threadIdx.x; column < a.columns; column += kThreads) {
    const float x[1] = {Wide(logits[column])};
    running = With(running, x);
  }
  running = WarpMerged(running);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = running;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  running = WarpMerged(threadIdx.x < kThreads / 32 ? parts[threadIdx.x] : Running{-CUDART_INF_F, 0});
  if (threadIdx.x != 0) return;
  largest[row] = running.largest;
  sum[row] = running.sum;
  const int64_t label = a.labels[row] - a.first_token;
  picked[row] = label >= 0 && label < a.columns ? Wide(logits[label]) : 0.0f;
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) Gradient(LogitArgs a, const float* log_sum_exp, float scale) {
  const int64_t row = blockIdx.y, column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (column >= a.stride) return;
  T* logits = static_cast<T*>(a.logits) + row * a.stride + column;
  const float sum = log_sum_exp[row];
  float x[N];
  Load<T>(logits, x);
  // Within this pack, where they are in it at all.
  const int64_t label = a.labels[row] - a.first_token - column, count = a.columns - column;
  if (count >= N && (label < 0 || label >= N)) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = __expf(x[i] - sum) * scale;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float likely = __expf(x[i] - sum) - (i == label && label < count ? 1.0f : 0.0f);
      x[i] = i < count ? likely * scale : 0.0f;
    }
  }
  Store<T>(logits, x);
}

bool IsWide(const LogitArgs& a, bool bf16) {
  return a.stride % (bf16 ? kWide<Bf16> : kWide<float>) == 0 && Aligned(a.logits);
}

constexpr int64_t kRows = 65535;

}  // namespace

int LogitStatistics(const LogitArgs& a, float* largest, float* sum, float* picked, bool bf16, void* stream) {
  if (a.rows == 0) return 0;
  return ByElement(bf16, IsWide(a, bf16), [&](auto type, auto pack) {
    Statistics<decltype(type), decltype(pack)::value>
        <<<static_cast<unsigned>(a.rows), kThreads, 0, On(stream)>>>(a, largest, sum, picked);
    return Launched();
  });
}

int LogitGradient(const LogitArgs& a, const float* log_sum_exp, float scale, bool bf16, void* stream) {
  return ByElement(bf16, IsWide(a, bf16), [&](auto type, auto pack) {
    using T = decltype(type);
    constexpr int64_t N = decltype(pack)::value;
    const auto blocks = static_cast<unsigned>((a.stride + N * kThreads - 1) / (N * kThreads));
    for (int64_t row = 0; row < a.rows; row += kRows) {
      LogitArgs part = a;
      part.logits = static_cast<T*>(a.logits) + row * a.stride;
      part.labels = a.labels + row;
      const dim3 grid(blocks, static_cast<unsigned>(a.rows - row < kRows ? a.rows - row : kRows));
      Gradient<T, N><<<grid, kThreads, 0, On(stream)>>>(part, log_sum_exp + row, scale);
    }
    return Launched();
  });
}

}  // namespace trireme::cuda
