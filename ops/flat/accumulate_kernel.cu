// A gradient added to its fp32 sum, or written over it: parts that each lie together, such as experts'.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256, kMostParts = 65535;

template <typename T, int N, bool kAdd>
__global__ void __launch_bounds__(kThreads) Accumulate(AccumulateArgs a) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= a.size) return;
  float* sum = a.sum + blockIdx.y * a.sum_stride + at;
  float added[N];
  Load<T>(static_cast<const T*>(a.addend) + blockIdx.y * a.addend_stride + at, added);
  if constexpr (kAdd) {
    float before[N];
    Load<float>(sum, before);
#pragma unroll
    for (int i = 0; i < N; ++i) added[i] += before[i];
  }
  Store<float>(sum, added);
}

template <typename T, int N>
void LaunchAccumulate(const AccumulateArgs& a, unsigned parts, void* stream) {
  const dim3 grid(static_cast<unsigned>((a.size + N * kThreads - 1) / (N * kThreads)), parts);
  if (a.add) {
    Accumulate<T, N, true><<<grid, kThreads, 0, On(stream)>>>(a);
  } else {
    Accumulate<T, N, false><<<grid, kThreads, 0, On(stream)>>>(a);
  }
}

}  // namespace

int Accumulate(const AccumulateArgs& a, bool bf16, void* stream) {
  if (a.size == 0) return 0;
  const bool wide =
      Aligned(a.sum) && Aligned(a.addend) && a.size % 4 == 0 && a.sum_stride % 4 == 0 && a.addend_stride % 8 == 0;
  for (int64_t first = 0; first < a.parts; first += kMostParts) {
    AccumulateArgs some = a;
    some.sum += first * a.sum_stride;
    some.addend = static_cast<const char*>(a.addend) + first * a.addend_stride * (bf16 ? 2 : 4);
    const auto parts = static_cast<unsigned>(a.parts - first < kMostParts ? a.parts - first : kMostParts);
    if (bf16) {
      wide ? LaunchAccumulate<Bf16, 4>(some, parts, stream) : LaunchAccumulate<Bf16, 1>(some, parts, stream);
    } else {
      wide ? LaunchAccumulate<float, 4>(some, parts, stream) : LaunchAccumulate<float, 1>(some, parts, stream);
    }
  }
  return Launched();
}

}  // namespace trireme::cuda
