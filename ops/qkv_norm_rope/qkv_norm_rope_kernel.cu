// From q|k|v to what attention reads and back: RMSNorm of query and key heads where the model has it, rotary
// turn, layout by strides. A block takes a token; a few threads take a head, each a pack of its first half
// and the pack of the second half that turns with it.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

// A block takes a token; each of its threads takes a few heads in turn with the same angles.
constexpr int kThreads = 128;

// Which head of which kind, and where attention has it.
struct Head {
  bool query, value;
  int64_t offset;
};

// Counts fit 32 bits, whose divisions are quick.
__device__ inline Head HeadAt(const HeadsArgs& a, unsigned head, unsigned row, unsigned position) {
  const auto heads = static_cast<unsigned>(a.heads), kv_heads = static_cast<unsigned>(a.kv_heads);
  if (head < heads) {
    const unsigned group = heads / kv_heads, kv_head = head / group;
    const HeadStrides& s = a.query_strides;
    return {true, false,
            row * s.row + kv_head * s.kv_head + (head - kv_head * group) * s.group + position * s.position};
  }
  const bool value = head >= heads + kv_heads;
  const HeadStrides& s = value ? a.value_strides : a.key_strides;
  const unsigned kv_head = head - heads - (value ? kv_heads : 0);
  return {false, value, row * s.row + kv_head * s.kv_head + position * s.position};
}

template <typename T>
__device__ inline T* Memory(const HeadsArgs& a, const Head& head) {
  void* base = head.query ? a.query : head.value ? a.value : a.key;
  return static_cast<T*>(base) + head.offset;
}

// Over the `lanes` threads of a head.
__device__ inline float HeadSum(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

template <typename T, int N>
__device__ inline void Norm(float (&low)[N], float (&high)[N], const T* weight, int lane, const HeadsArgs& a,
                            float* scale_at) {
  const int lanes = static_cast<int>(a.dim / 2) / N;
  float squares = 0, weight_low[N], weight_high[N];
#pragma unroll
  for (int i = 0; i < N; ++i) squares += low[i] * low[i] + high[i] * high[i];
  const float scale = rsqrtf(HeadSum(squares, lanes) / static_cast<float>(a.dim) + a.eps);
  if (lane == 0 && scale_at != nullptr) *scale_at = scale;
  Load<T>(weight + lane * N, weight_low);
  Load<T>(weight + a.dim / 2 + lane * N, weight_high);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    low[i] = Rounded<T>(Rounded<T>(low[i] * scale) * weight_low[i]);
    high[i] = Rounded<T>(Rounded<T>(high[i] * scale) * weight_high[i]);
  }
}

template <typename T, int N, bool kNorms>
__global__ void __launch_bounds__(kThreads) Forward(HeadsArgs a) {
  const int half = static_cast<int>(a.dim / 2), lanes = half / N, lane = threadIdx.x % lanes;
  const auto all = static_cast<unsigned>(a.heads + 2 * a.kv_heads), length = static_cast<unsigned>(a.length);
  const int64_t token = blockIdx.x;
  const unsigned row = blockIdx.x / length, position = blockIdx.x - row * length;
  float cosine[N], sine[N];
  Load<float>(a.cosine + token * half + lane * N, cosine);
  Load<float>(a.sine + token * half + lane * N, sine);
  // Whole warps stay in the loop: heads exchange values by shuffles.
  const unsigned step = blockDim.x / lanes, group = threadIdx.x / lanes;
  for (unsigned first = 0; first < all; first += step) {
    const unsigned index = first + group;
    const bool here = index < all;
    const Head head = HeadAt(a, here ? index : 0, row, position);
    const T* from = static_cast<const T*>(a.qkv) + (token * all + (here ? index : 0)) * a.dim + lane * N;
    float low[N], high[N];
    Load<T>(from, low);
    Load<T>(from + half, high);
    if constexpr (kNorms) {
      const T* weight = static_cast<const T*>(head.query ? a.query_norm : a.key_norm);
      if (weight != nullptr) {
        float turned_low[N], turned_high[N];
#pragma unroll
        for (int i = 0; i < N; ++i) turned_low[i] = low[i], turned_high[i] = high[i];
        float* scale_at = here && !head.value ? a.scales + token * (a.heads + a.kv_heads) + index : nullptr;
        Norm<T, N>(turned_low, turned_high, weight, lane, a, scale_at);
#pragma unroll
        for (int i = 0; i < N && !head.value; ++i) low[i] = turned_low[i], high[i] = turned_high[i];
      }
    }
    if (!here) continue;
    if (!head.value) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float x = low[i], y = high[i];
        low[i] = x * cosine[i] - y * sine[i];
        high[i] = y * cosine[i] + x * sine[i];
      }
    }
    T* to = Memory<T>(a, head) + lane * N;
    Store<T>(to, low);
    Store<T>(to + half, high);
  }
}

// The gradient of a normalised head back through its norm; adds to the sums of the norm's weight.
template <typename T, int N>
__device__ inline void NormBackward(float (&low)[N], float (&high)[N], const T* x, const T* weight, float scale,
                                    int lane, const HeadsArgs& a, bool counts, float (&sums)[2][N]) {
  const int half = static_cast<int>(a.dim / 2);
  float x_low[N], x_high[N], weight_low[N], weight_high[N], shared = 0;
  Load<T>(x, x_low);
  Load<T>(x + half, x_high);
  Load<T>(weight + lane * N, weight_low);
  Load<T>(weight + half + lane * N, weight_high);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    x_low[i] *= scale, x_high[i] *= scale;
    if (counts) sums[0][i] += low[i] * x_low[i], sums[1][i] += high[i] * x_high[i];
    low[i] *= weight_low[i], high[i] *= weight_high[i];
    shared += low[i] * x_low[i] + high[i] * x_high[i];
  }
  shared = HeadSum(shared, half / N) / static_cast<float>(a.dim);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    low[i] = (low[i] - x_low[i] * shared) * scale;
    high[i] = (high[i] - x_high[i] * shared) * scale;
  }
}

// Sums of all threads of the block that have the same lane of a head, in a fixed order.
template <int N>
__device__ void StoreSums(const float (&sums)[2][2][N], const HeadsArgs& a, float* room) {
  const int half = static_cast<int>(a.dim / 2), lanes = half / N, lane = threadIdx.x % lanes;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
#pragma unroll
  for (int kind = 0; kind < 2; ++kind) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        float sum = sums[kind][part][i];
        for (int step = 16; step >= lanes; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 < lanes) room[(warp * 2 + kind) * a.dim + part * half + lane * N + i] = sum;
      }
    }
  }
  __syncthreads();
  for (int64_t at = threadIdx.x; at < 2 * a.dim; at += blockDim.x) {
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += room[w * 2 * a.dim + at];
    a.norm_sums[blockIdx.x * 2 * a.dim + at] = sum;
  }
}

template <typename T, int N, bool kNorms>
__global__ void __launch_bounds__(kThreads) Backward(HeadsArgs a) {
  extern __shared__ float room[];
  const int half = static_cast<int>(a.dim / 2), lanes = half / N, lane = threadIdx.x % lanes;
  const auto all = static_cast<unsigned>(a.heads + 2 * a.kv_heads), length = static_cast<unsigned>(a.length);
  const unsigned step = blockDim.x / lanes, group = threadIdx.x / lanes;
  [[maybe_unused]] float sums[2][2][kNorms ? N : 1] = {};
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
    const unsigned row = static_cast<unsigned>(token) / length, position = static_cast<unsigned>(token) - row * length;
    float cosine[N], sine[N];
    Load<float>(a.cosine + token * half + lane * N, cosine);
    Load<float>(a.sine + token * half + lane * N, sine);
    for (unsigned first = 0; first < all; first += step) {
      const unsigned index = first + group;
      const bool here = index < all;
      const Head head = HeadAt(a, here ? index : 0, row, position);
      const T* from = Memory<T>(a, head) + lane * N;
      const int64_t at = (token * all + (here ? index : 0)) * a.dim + lane * N;
      float low[N], high[N];
      Load<T>(from, low);
      Load<T>(from + half, high);
      if (!head.value) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float x = low[i], y = high[i];
          low[i] = x * cosine[i] + y * sine[i];
          high[i] = y * cosine[i] - x * sine[i];
        }
      }
      if constexpr (kNorms) {
        const T* weight = static_cast<const T*>(head.query ? a.query_norm : a.key_norm);
        if (weight != nullptr) {
          const bool counts = here && !head.value;
          float back_low[N], back_high[N];
#pragma unroll
          for (int i = 0; i < N; ++i) back_low[i] = low[i], back_high[i] = high[i];
          const float scale = counts ? a.scales[token * (a.heads + a.kv_heads) + index] : 0;
          float own[2][N] = {};
          NormBackward<T, N>(back_low, back_high, static_cast<const T*>(a.qkv) + at, weight, scale, lane, a, counts,
                             own);
#pragma unroll
          for (int i = 0; i < N; ++i) {
            if (head.value) continue;
            low[i] = back_low[i], high[i] = back_high[i];
            sums[0][0][i] += head.query ? own[0][i] : 0, sums[0][1][i] += head.query ? own[1][i] : 0;
            sums[1][0][i] += head.query ? 0 : own[0][i], sums[1][1][i] += head.query ? 0 : own[1][i];
          }
        }
      }
      if (!here) continue;
      T* to = static_cast<T*>(a.qkv_gradient) + at;
      Store<T>(to, low);
      Store<T>(to + half, high);
    }
  }
  if constexpr (kNorms) StoreSums<N>(sums, a, room);
}

// All heads of a token in as few equal rounds as the threads allow, in whole warps.
int ThreadsOf(const HeadsArgs& a, int pack) {
  const int64_t wanted = (a.heads + 2 * a.kv_heads) * (a.dim / 2 / pack), rounds = (wanted + kThreads - 1) / kThreads;
  return static_cast<int>(((wanted + rounds - 1) / rounds + 31) / 32 * 32);
}

}  // namespace

int SplitHeads(const HeadsArgs& a, bool bf16, void* stream) {
  if (a.tokens == 0) return 0;
  const auto launch = [&](auto type, auto pack) {
    constexpr int N = decltype(pack)::value;
    const auto kernel = a.scales == nullptr ? Forward<decltype(type), N, false> : Forward<decltype(type), N, true>;
    kernel<<<static_cast<unsigned>(a.tokens), ThreadsOf(a, N), 0, On(stream)>>>(a);
    return Launched();
  };
  return bf16 ? launch(Bf16{}, Count<kWide<Bf16>>{}) : launch(float{}, Count<kWide<float>>{});
}

int SplitHeadsBackward(const HeadsArgs& a, bool bf16, void* stream) {
  const auto launch = [&](auto type, auto pack) {
    constexpr int N = decltype(pack)::value;
    const int threads = ThreadsOf(a, N);
    const size_t room = a.scales == nullptr ? 0 : threads / 32 * 2 * a.dim * sizeof(float);
    const auto kernel = a.scales == nullptr ? Backward<decltype(type), N, false> : Backward<decltype(type), N, true>;
    kernel<<<static_cast<unsigned>(a.blocks), threads, room, On(stream)>>>(a);
    return Launched();
  };
  return bf16 ? launch(Bf16{}, Count<kWide<Bf16>>{}) : launch(float{}, Count<kWide<float>>{});
}

}  // namespace trireme::cuda
