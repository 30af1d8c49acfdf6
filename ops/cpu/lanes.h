// Loops over the elements of a row in fp32, whatever the row's storage. Two adjacent bf16 values are read and
// written as one word: all lanes then have 32 bits, which compilers vectorise well on every machine; loops
// that mix widths run at half the speed or less. Also a fast exponential and reciprocal. No torch.
#pragma once

#include "ops/cpu/simd.h"

namespace trireme::cpu {

// Elements 2i (in the lower half, as on every supported machine) and 2i + 1.
using PairWord = uint32_t __attribute__((may_alias, aligned(2)));
TRIREME_INLINE const PairWord* PairsOf(const Bf16* x) { return reinterpret_cast<const PairWord*>(x); }
TRIREME_INLINE PairWord* PairsOf(Bf16* x) { return reinterpret_cast<PairWord*>(x); }
TRIREME_INLINE float Even(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
TRIREME_INLINE float Odd(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

TRIREME_INLINE uint32_t PairWith(float even, float odd) {
  return (RoundedBits(even) >> 16) | (RoundedBits(odd) & 0xffff0000u);
}
template <typename T>
TRIREME_INLINE float RoundedResult(float x);
template <>
TRIREME_INLINE float RoundedResult<float>(float x) {
  return x;
}
template <>
TRIREME_INLINE float RoundedResult<Bf16>(float x) {
  return std::bit_cast<float>(RoundedBits(x) & 0xffff0000u);
}

// y[i] = f(in[i]…) for i < count.
template <typename F, typename... In>
TRIREME_INLINE void Map(int64_t count, float* y, const F& f, const In*... in) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = f(in[i]...);
}
template <typename F, typename... In>
TRIREME_INLINE void Map(int64_t count, Bf16* y, const F& f, const In*... in) {
  PairWord* pairs = PairsOf(y);
#pragma omp simd
  for (int64_t i = 0; i < count / 2; ++i) {
    pairs[i] = PairWith(f(Even(PairsOf(in)[i])...), f(Odd(PairsOf(in)[i])...));
  }
  if (count % 2 != 0) y[count - 1] = NarrowResult<Bf16>(f(Widen(in[count - 1])...));
}

// The two results of a loop for an element, and a term of a sum.
struct TwoAndTerm {
  float first, second, term;
};

// y[i], z[i] = the first and second of f(in[i]…) for i < count; returns the sum of its terms.
template <typename F, typename... In>
TRIREME_INLINE float MapTwo(int64_t count, float* y, float* z, const F& f, const In*... in) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const TwoAndTerm result = f(in[i]...);
    y[i] = result.first;
    z[i] = result.second;
    sum += result.term;
  }
  return sum;
}
template <typename F, typename... In>
TRIREME_INLINE float MapTwo(int64_t count, Bf16* y, Bf16* z, const F& f, const In*... in) {
  PairWord *y_pairs = PairsOf(y), *z_pairs = PairsOf(z);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count / 2; ++i) {
    const TwoAndTerm even = f(Even(PairsOf(in)[i])...), odd = f(Odd(PairsOf(in)[i])...);
    y_pairs[i] = PairWith(even.first, odd.first);
    z_pairs[i] = PairWith(even.second, odd.second);
    sum += even.term + odd.term;
  }
  if (count % 2 == 0) return sum;
  const TwoAndTerm last = f(Widen(in[count - 1])...);
  y[count - 1] = NarrowResult<Bf16>(last.first);
  z[count - 1] = NarrowResult<Bf16>(last.second);
  return sum + last.term;
}

// Σ f(in[i]…) for i < count. In several chains, since a single one would wait for its own previous step.
template <typename F, typename... In>
TRIREME_INLINE float SumOf(int64_t count, const F& f, const float* first, const In*... in) {
  const int64_t half = count / 2;
  float lower = 0, upper = 0;
#pragma omp simd reduction(+ : lower, upper)
  for (int64_t i = 0; i < half; ++i) {
    lower += f(first[i], in[i]...);
    upper += f(first[half + i], in[half + i]...);
  }
  return lower + upper + (count % 2 == 0 ? 0.0f : f(first[count - 1], in[count - 1]...));
}
template <typename F, typename... In>
TRIREME_INLINE float SumOf(int64_t count, const F& f, const Bf16* first, const In*... in) {
  float even = 0, odd = 0;
#pragma omp simd reduction(+ : even, odd)
  for (int64_t i = 0; i < count / 2; ++i) {
    even += f(Even(PairsOf(first)[i]), Even(PairsOf(in)[i])...);
    odd += f(Odd(PairsOf(first)[i]), Odd(PairsOf(in)[i])...);
  }
  return even + odd + (count % 2 == 0 ? 0.0f : f(Widen(first[count - 1]), Widen(in[count - 1])...));
}

// For a norm's backward pass: adds dy · x · scale to the weight's sums; returns the sum of that times the
// weight.
TRIREME_INLINE float AddProducts(const float* x, const float* dy, const float* weight, int64_t size, float scale,
                                 float* sums) {
  float shared = 0;
#pragma omp simd reduction(+ : shared)
  for (int64_t i = 0; i < size; ++i) {
    const float product = dy[i] * (x[i] * scale);
    sums[i] += product;
    shared += product * weight[i];
  }
  return shared;
}

// e^x for x up to 88, in two thirds of the time of ExpUpTo88: the relative error grows with |x|, 2e-7 · (1 +
// |x|), which is fine for terms of a sum whose largest is 1. 0 below -86. NaN stays NaN.
TRIREME_INLINE float QuickExp(float x) {
  constexpr float kLog2E = 1.44269504f, kRound = 12582912.0f;  // 1.5 · 2²³: adding it rounds to an integer
  const float shifted = x * kLog2E + kRound;
  const float r = x * kLog2E - (shifted - kRound);  // |r| <= 1/2
  float p = 1.32647273e-3f;                         // 2^r, with an error below 1e-7
  p = p * r + 9.67151299e-3f;
  p = p * r + 5.55073358e-2f;
  p = p * r + 2.40222424e-1f;
  p = p * r + 6.93147004e-1f;
  p = p * r + 1.0f;
  const uint32_t bits = std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(shifted) << 23);
  return x < -86.0f ? 0.0f : std::bit_cast<float>(bits);
}

// 1 / x for x from 1 to 2¹²⁰ with a relative error below 2e-7: an estimate within an eighth, and two steps
// that each cube the error. A division costs more than twice as much.
TRIREME_INLINE float ReciprocalFrom1(float x) {
  float guess = std::bit_cast<float>(0x7ef311c7u - std::bit_cast<uint32_t>(x));
  for (int step = 0; step < 2; ++step) {
    const float error = 1.0f - x * guess;
    guess += guess * (error + error * error);
  }
  return guess;
}

}  // namespace trireme::cpu
