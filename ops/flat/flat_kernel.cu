// What runs over flat memory: an AdamW step with masters and moments in fp32 or bf16, sums of squares,
// dropout.
#include <type_traits>

#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/dropout_add/dropout_rule.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

struct LowHalf {  // of a master: what its bits are above those of the bf16 parameter
  int16_t bits;
};

template <typename M, typename P, int N>
__device__ inline void LoadMaster(const AdamWArgs& a, int64_t at, float (&master)[N]) {
  if constexpr (std::is_same_v<M, LowHalf>) {
    const auto low = LoadRaw<N>(static_cast<const M*>(a.master) + at);
    const auto high = LoadRaw<N>(static_cast<const P*>(a.parameter) + at);
#pragma unroll
    for (int i = 0; i < N; ++i)
      master[i] =
          __uint_as_float((static_cast<uint32_t>(high.at[i].bits) << 16) + static_cast<int32_t>(low.at[i].bits));
  } else {
    Load<M>(static_cast<const M*>(a.master) + at, master);
  }
}

// The parameter, too, where there is one.
template <typename M, typename P, int N>
__device__ inline void StoreMaster(const AdamWArgs& a, int64_t at, const float (&master)[N]) {
  if constexpr (std::is_same_v<M, LowHalf>) {
    Pack<M, N> low;
    Pack<P, N> high;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const uint32_t bits = __float_as_uint(master[i]);
      high.at[i].bits = static_cast<uint16_t>((bits + 0x8000u) >> 16);
      low.at[i].bits = static_cast<int16_t>(bits - (static_cast<uint32_t>(high.at[i].bits) << 16));
    }
    *reinterpret_cast<Pack<M, N>*>(static_cast<M*>(a.master) + at) = low;
    *reinterpret_cast<Pack<P, N>*>(static_cast<P*>(a.parameter) + at) = high;
  } else {
    Store<M>(static_cast<M*>(a.master) + at, master);
    if (a.parameter != nullptr) Store<P>(static_cast<P*>(a.parameter) + at, master);
  }
}

// M: of the master; S: of the moments; P: of the parameter, where it is not the master.
template <typename M, typename S, typename P, int N>
__global__ void __launch_bounds__(kThreads) Step(AdamWArgs a, int64_t first) {
  const int64_t at = first + (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= a.size) return;
  const AdamWFactors& f = a.factors;
  float master[N], mean[N], square[N], gradient[N];
  LoadMaster<M, P>(a, at, master);
  Load<S>(static_cast<S*>(a.exp_avg) + at, mean);
  Load<S>(static_cast<S*>(a.exp_avg_sq) + at, square);
  Load<float>(a.gradient + at, gradient);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    mean[i] = f.beta1 * mean[i] + f.one_minus_beta1 * g;
    square[i] = f.beta2 * square[i] + f.one_minus_beta2 * g * g;
    const float denominator = sqrtf(square[i]) * f.inverse_correction + f.eps;
    master[i] = master[i] * f.decay - f.step_size * (mean[i] / denominator);
  }
  StoreMaster<M, P>(a, at, master);
  Store<S>(static_cast<S*>(a.exp_avg) + at, mean);
  Store<S>(static_cast<S*>(a.exp_avg_sq) + at, square);
}

template <typename M, typename S, typename P>
int Launch(const AdamWArgs& a, void* stream) {
  constexpr int kPack = 4;
  const bool wide =
      Aligned(a.master) && Aligned(a.exp_avg) && Aligned(a.exp_avg_sq) && Aligned(a.gradient) && Aligned(a.parameter);
  const int64_t packs = wide ? a.size / kPack : 0, rest = a.size - packs * kPack;
  const auto blocks = [](int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); };
  if (packs > 0) {
    AdamWArgs whole = a;
    whole.size = packs * kPack;
    Step<M, S, P, kPack><<<blocks(packs), kThreads, 0, On(stream)>>>(whole, 0);
  }
  if (rest > 0) Step<M, S, P, 1><<<blocks(rest), kThreads, 0, On(stream)>>>(a, packs * kPack);
  return Launched();
}

template <typename M, typename S>
int ByParameter(const AdamWArgs& a, void* stream) {
  return a.parameter_bf16 ? Launch<M, S, Bf16>(a, stream) : Launch<M, S, float>(a, stream);
}

__global__ void __launch_bounds__(kThreads) Squares(const float* values, int64_t size, double* sums) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  double sum = 0;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < size; at += 16 * step) {
    float part = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float x = at + i * step < size ? values[at + i * step] : 0.0f;
      part += x * x;
    }
    sum += part;
  }
  __shared__ double parts[kThreads];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

__device__ inline uint32_t Mixed(uint32_t h, unsigned shift) { return h ^ (h >> shift); }

template <typename T>
__global__ void __launch_bounds__(kThreads) Dropped(DropoutArgs a, float threshold, float scale) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, row = blockIdx.y;
  if (column >= a.columns) return;
  uint32_t h = (static_cast<uint32_t>(column) + a.first_column) * kColumnStep + a.keys[2 * row];
  h = Mixed(h, kFirstShift) * kFirstFactor + a.keys[2 * row + 1];
  h = Mixed(Mixed(h, kSecondShift) * kSecondFactor, kThirdShift);
  const int64_t at = row * a.columns + column;
  const bool dropped = static_cast<float>(h >> kUnusedBits) < threshold;
  float y = dropped ? 0.0f : Wide(static_cast<const T*>(a.x)[at]) * scale;
  if (a.residual != nullptr) y += Wide(static_cast<const T*>(a.residual)[at]);
  static_cast<T*>(a.y)[at] = Narrow<T>(y);
}

template <typename T>
int LaunchDropout(const DropoutArgs& a, void* stream) {
  constexpr int64_t kRows = 65535;
  const auto blocks = static_cast<unsigned>((a.columns + kThreads - 1) / kThreads);
  for (int64_t row = 0; row < a.rows; row += kRows) {
    DropoutArgs part = a;
    part.x = static_cast<const T*>(a.x) + row * a.columns;
    part.residual = a.residual == nullptr ? nullptr : static_cast<const T*>(a.residual) + row * a.columns;
    part.y = static_cast<T*>(a.y) + row * a.columns;
    part.keys = a.keys + 2 * row;
    const dim3 grid(blocks, static_cast<unsigned>(a.rows - row < kRows ? a.rows - row : kRows));
    Dropped<T><<<grid, kThreads, 0, On(stream)>>>(part, a.rate * kDraws, 1.0f / (1.0f - a.rate));
  }
  return Launched();
}

}  // namespace

int AdamW(const AdamWArgs& a, void* stream) {
  if (a.master_split)
    return a.moments_bf16 ? Launch<LowHalf, Bf16, Bf16>(a, stream) : Launch<LowHalf, float, Bf16>(a, stream);
  if (a.master_bf16) return a.moments_bf16 ? ByParameter<Bf16, Bf16>(a, stream) : ByParameter<Bf16, float>(a, stream);
  return a.moments_bf16 ? ByParameter<float, Bf16>(a, stream) : ByParameter<float, float>(a, stream);
}

int SumOfSquares(const float* values, int64_t size, double* sums, int blocks, void* stream) {
  Squares<<<static_cast<unsigned>(blocks), kThreads, 0, On(stream)>>>(values, size, sums);
  return Launched();
}

int DropoutAdd(const DropoutArgs& a, bool bf16, void* stream) {
  if (a.columns == 0) return 0;
  return bf16 ? LaunchDropout<Bf16>(a, stream) : LaunchDropout<float>(a, stream);
}

}  // namespace trireme::cuda

// The one name that the library gives.
extern "C" __attribute__((visibility("default"))) const trireme::cuda::Kernels* trireme_cuda_kernels() {
  using namespace trireme::cuda;  // NOLINT: the table's entries
  static const Kernels table{.rms_norm = RmsNorm,
                             .rms_norm_backward = RmsNormBackward,
                             .swiglu = SwiGlu,
                             .swiglu_backward = SwiGluBackward,
                             .weighted_swiglu = WeightedSwiGlu,
                             .weighted_swiglu_backward = WeightedSwiGluBackward,
                             .spread_rows = SpreadRows,
                             .sum_rows = SumRows,
                             .expert_positions = ExpertPositions,
                             .router = Router,
                             .router_backward = RouterBackward,
                             .store_tokens = StoreTokens,
                             .decode_attention = DecodeAttention,
                             .split_heads = SplitHeads,
                             .split_heads_backward = SplitHeadsBackward,
                             .logit_statistics = LogitStatistics,
                             .logit_gradient = LogitGradient,
                             .adamw = AdamW,
                             .sum_of_squares = SumOfSquares,
                             .dropout_add = DropoutAdd,
                             .accumulate = Accumulate,
                             .grouped_gradient = GroupedGradient,
                             .dequantise = Dequantise,
                             .largest_of_rows = LargestOfRows,
                             .cast_rows = CastRows,
                             .turn_bytes = TurnBytes,
                             .cast_turned = CastTurned,
                             .few_rows = FewRows};
  return &table;
}
