// What kernels of fp8_linear share: the largest magnitude of a row by a block, the scale it gives, and codes of e4m3.
#pragma once

#include "ops/cuda/device.cuh"

namespace trireme::cuda {

inline constexpr float kLeastRow = 1e-12f;

__device__ inline float BlockLargest(float x) {
  __shared__ float parts[32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = lane < warps ? parts[lane] : 0.0f;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// As core/packing/e4m3.h: the exponent of the scale; 448 = 1.75 · 2^8.
__device__ inline uint32_t ScaleExponent(float largest) {
  const uint32_t bits = __float_as_uint(fmaxf(largest, kLeastRow));
  return (bits >> 23) - 8 + ((bits & 0x7FFFFFu) > 0x600000u ? 1 : 0);
}

// Two at once, nearest even; the rows' scales keep them within 448.
__device__ inline uint16_t TwoCodes(float low, float high) {
  uint16_t both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  return both;
}

template <int N>
__device__ inline float Largest(const float (&x)[N], float largest) {
#pragma unroll
  for (int i = 0; i < N; ++i) largest = fmaxf(largest, fabsf(x[i]));
  return largest;
}

template <int N>
__device__ inline void StoreCodes(const float (&x)[N], float inverse, uint8_t* to) {
  Pack<uint16_t, N / 2> codes;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) codes.at[i] = TwoCodes(x[2 * i] * inverse, x[2 * i + 1] * inverse);
  *reinterpret_cast<Pack<uint16_t, N / 2>*>(to) = codes;
}

struct RowScale {
  float scale, inverse;
};

__device__ inline RowScale ScaleOf(float largest) {
  const uint32_t exponent = ScaleExponent(largest);
  // What is infinite must not become 448.
  const bool finite = largest < __uint_as_float(0x7F800000u);
  return {__uint_as_float(finite ? exponent << 23 : 0x7FC00000u), __uint_as_float((254 - exponent) << 23)};
}

}  // namespace trireme::cuda
