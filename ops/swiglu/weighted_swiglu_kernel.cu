// silu(gate) · up of the experts' rows, each scaled by its weight, and the gradients of both: a row a warp.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kWarps = 8;

__device__ inline float Sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ inline int64_t RowOfWarp() { return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; }

template <typename T, int N>
__global__ void __launch_bounds__(kWarps * 32)
    Forward(const T* gate_up, const float* weights, T* y, int64_t rows, int64_t ffn) {
  const int64_t row = RowOfWarp();
  if (row >= rows) return;
  const float weight = weights[row];
  const T* gates = gate_up + row * 2 * ffn;
  for (int64_t column = threadIdx.x % 32 * N; column < ffn; column += 32 * N) {
    float gate[N], up[N];
    Load<T>(gates + column, gate);
    Load<T>(gates + ffn + column, up);
#pragma unroll
    for (int i = 0; i < N; ++i) up[i] *= gate[i] * Sigmoid(gate[i]) * weight;
    Store<T>(y + row * ffn + column, up);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kWarps * 32) Backward(const T* gate_up, const float* weights, const T* gradient,
                                                        T* result, float* weights_gradient, int64_t rows, int64_t ffn) {
  const int64_t row = RowOfWarp();
  if (row >= rows) return;
  const float weight = weights[row];
  const T* gates = gate_up + row * 2 * ffn;
  T* out = result + row * 2 * ffn;
  float sum = 0;
  for (int64_t column = threadIdx.x % 32 * N; column < ffn; column += 32 * N) {
    float gate[N], up[N], y[N];
    Load<T>(gates + column, gate);
    Load<T>(gates + ffn + column, up);
    Load<T>(gradient + row * ffn + column, y);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = Sigmoid(gate[i]), silu = gate[i] * s;
      sum += y[i] * silu * up[i];
      y[i] *= weight;
      gate[i] = y[i] * up[i] * (s + silu * (1 - s));
      up[i] = y[i] * silu;
    }
    Store<T>(out + column, gate);
    Store<T>(out + ffn + column, up);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) weights_gradient[row] = sum;
}

unsigned Blocks(int64_t rows) { return static_cast<unsigned>((rows + kWarps - 1) / kWarps); }

bool IsWide(int64_t ffn, bool bf16, const void* a, const void* b) {
  return ffn % (bf16 ? kWide<Bf16> : kWide<float>) == 0 && Aligned(a) && Aligned(b);
}

}  // namespace

int WeightedSwiGlu(const void* gate_up, const float* weights, void* y, int64_t rows, int64_t ffn, bool bf16,
                   void* stream) {
  if (rows == 0 || ffn == 0) return 0;
  return ByElement(bf16, IsWide(ffn, bf16, gate_up, y), [&](auto type, auto pack) {
    using T = decltype(type);
    Forward<T, decltype(pack)::value><<<Blocks(rows), kWarps * 32, 0, On(stream)>>>(
        static_cast<const T*>(gate_up), weights, static_cast<T*>(y), rows, ffn);
    return Launched();
  });
}

int WeightedSwiGluBackward(const void* gate_up, const float* weights, const void* gradient, void* result,
                           float* weights_gradient, int64_t rows, int64_t ffn, bool bf16, void* stream) {
  if (rows == 0 || ffn == 0) return 0;
  return ByElement(bf16, IsWide(ffn, bf16, gate_up, gradient), [&](auto type, auto pack) {
    using T = decltype(type);
    Backward<T, decltype(pack)::value><<<Blocks(rows), kWarps * 32, 0, On(stream)>>>(
        static_cast<const T*>(gate_up), weights, static_cast<const T*>(gradient), static_cast<T*>(result),
        weights_gradient, rows, ffn);
    return Launched();
  });
}

}  // namespace trireme::cuda
