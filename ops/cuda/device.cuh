// What the kernels share: packs of elements that are read and written at once, their arithmetic in fp32, sums
// over a warp and over a block.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace trireme::cuda {

// Of our own: CUDA's header for it wants more packages than its compiler.
struct Bf16 {
  uint16_t bits;
};

template <typename T>
inline constexpr int kWide = 16 / sizeof(T);

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

__device__ inline float Wide(float x) { return x; }
__device__ inline float Wide(Bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
template <typename T>
__device__ inline T Narrow(float x);
template <>
__device__ inline float Narrow<float>(float x) {
  return x;
}
template <>
__device__ inline Bf16 Narrow<Bf16>(float x) {
  Bf16 narrow;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
  return narrow;
}
// As it reads once it has been written.
template <typename T>
__device__ inline float Rounded(float x) {
  return Wide(Narrow<T>(x));
}

// As it lies in memory: half the registers of its values in fp32.
template <int N, typename T>
__device__ inline Pack<T, N> LoadRaw(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <typename T, int N>
__device__ inline void Unpack(const Pack<T, N>& pack, float (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = Wide(pack.at[i]);
}
template <typename T, int N>
__device__ inline void Load(const T* from, float (&to)[N]) {
  Unpack(LoadRaw<N>(from), to);
}

// Two elements by one instruction: conversions are a quarter as fast as other arithmetic.
__device__ inline uint32_t NarrowTwo(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <typename T, int N>
__device__ inline void Store(T* to, const float (&from)[N]) {
  Pack<T, N> pack;
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    Pack<uint32_t, N / 2> words;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) words.at[i] = NarrowTwo(from[2 * i], from[2 * i + 1]);
    *reinterpret_cast<Pack<uint32_t, N / 2>*>(to) = words;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = Narrow<T>(from[i]);
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}

__device__ inline float WarpSum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// Over a block of at most 1024 threads; every thread gets it.
__device__ inline float BlockSum(float x) {
  __shared__ float parts[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
  x = WarpSum(x);
  __syncthreads();  // the last sum has been read
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  return WarpSum(lane < warps ? parts[lane] : 0.0f);
}

// The kernel after this one may start before this one ends, if it was launched so; and what such a kernel waits for
// before it touches anything but what was in memory before both.
__device__ inline void LetNextStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ inline void AwaitPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

inline bool Aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }
inline int Launched() { return static_cast<int>(cudaGetLastError()); }
inline cudaStream_t On(void* stream) { return static_cast<cudaStream_t>(stream); }

// Calls work(T{}, std::integral_constant-like N): wide packs where `wide`, single elements otherwise.
template <int N>
struct Count {
  static constexpr int value = N;
};
template <typename Work>
int ByElement(bool bf16, bool wide, const Work& work) {
  if (bf16) return wide ? work(Bf16{}, Count<kWide<Bf16>>{}) : work(Bf16{}, Count<1>{});
  return wide ? work(float{}, Count<kWide<float>>{}) : work(float{}, Count<1>{});
}

}  // namespace trireme::cuda
