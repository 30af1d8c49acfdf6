// silu(gate) · up of a fused gate|up, and its gradient: one pass over memory each.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float Sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) Forward(const T* gate_up, T* y, int64_t ffn) {
  LetNextStart();
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N, row = blockIdx.y;
  if (column >= ffn) return;
  float gate[N], up[N];
  Load<T>(gate_up + row * 2 * ffn + column, gate);
  Load<T>(gate_up + row * 2 * ffn + ffn + column, up);
#pragma unroll
  for (int i = 0; i < N; ++i) up[i] *= gate[i] * Sigmoid(gate[i]);
  Store<T>(y + row * ffn + column, up);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) Backward(const T* gate_up, const T* gradient, T* result, int64_t ffn) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N, row = blockIdx.y;
  if (column >= ffn) return;
  float gate[N], up[N], y[N];
  Load<T>(gate_up + row * 2 * ffn + column, gate);
  Load<T>(gate_up + row * 2 * ffn + ffn + column, up);
  Load<T>(gradient + row * ffn + column, y);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float s = Sigmoid(gate[i]), silu = gate[i] * s;
    gate[i] = y[i] * up[i] * (s + silu * (1 - s));
    up[i] = y[i] * silu;
  }
  Store<T>(result + row * 2 * ffn + column, gate);
  Store<T>(result + row * 2 * ffn + ffn + column, up);
}

dim3 GridOf(int64_t rows, int64_t ffn, int pack) {
  const int64_t packs = (ffn + pack - 1) / pack;
  return {static_cast<unsigned>((packs + kThreads - 1) / kThreads), static_cast<unsigned>(rows), 1};
}

bool IsWide(int64_t ffn, bool bf16, const void* a, const void* b) {
  return ffn % (bf16 ? kWide<Bf16> : kWide<float>) == 0 && Aligned(a) && Aligned(b);
}

// A grid has at most so many rows of blocks.
constexpr int64_t kRows = 65535;

}  // namespace

int SwiGlu(const void* gate_up, void* y, int64_t rows, int64_t ffn, bool bf16, void* stream) {
  if (ffn == 0) return 0;
  return ByElement(bf16, IsWide(ffn, bf16, gate_up, y), [&](auto type, auto pack) {
    using T = decltype(type);
    constexpr int N = decltype(pack)::value;
    for (int64_t row = 0; row < rows; row += kRows) {
      Forward<T, N><<<GridOf(rows - row < kRows ? rows - row : kRows, ffn, N), kThreads, 0, On(stream)>>>(
          static_cast<const T*>(gate_up) + row * 2 * ffn, static_cast<T*>(y) + row * ffn, ffn);
    }
    return Launched();
  });
}

int SwiGluBackward(const void* gate_up, const void* gradient, void* result, int64_t rows, int64_t ffn, bool bf16,
                   void* stream) {
  if (ffn == 0) return 0;
  return ByElement(bf16, IsWide(ffn, bf16, gate_up, gradient), [&](auto type, auto pack) {
    using T = decltype(type);
    constexpr int N = decltype(pack)::value;
    for (int64_t row = 0; row < rows; row += kRows) {
      Backward<T, N><<<GridOf(rows - row < kRows ? rows - row : kRows, ffn, N), kThreads, 0, On(stream)>>>(
          static_cast<const T*>(gate_up) + row * 2 * ffn, static_cast<const T*>(gradient) + row * ffn,
          static_cast<T*>(result) + row * 2 * ffn, ffn);
    }
    return Launched();
  });
}

}  // namespace trireme::cuda
