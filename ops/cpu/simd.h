// Building blocks of the CPU kernels: bf16, an exponential that vectorises, and the macro that compiles a
// function once for each generation of x86. Kernels are plain loops over rows [begin, end), without torch;
// the caller splits the rows over threads.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

// Bodies are always inlined into a function marked TRIREME_CLONES, so that each clone has its own. Not under a
// sanitizer: which clone is chosen before the sanitizer's own memory exists, and the choice is instrumented, too.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define TRIREME_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIREME_CLONES
#endif
#define TRIREME_INLINE inline __attribute__((always_inline))

namespace trireme::cpu {

// The upper half of a float, laid out like torch's type. An enum, because copies of a struct do not
// vectorise.
enum class Bf16 : uint16_t {};

struct Rows {
  int64_t begin = 0;
  int64_t end = 0;
};

TRIREME_INLINE float Widen(float x) { return x; }
TRIREME_INLINE float Widen(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

// To nearest, ties to even; a NaN stays a (quiet) NaN.
template <typename T>
TRIREME_INLINE T Narrow(float x);
template <>
TRIREME_INLINE float Narrow<float>(float x) {
  return x;
}
template <>
TRIREME_INLINE Bf16 Narrow<Bf16>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<Bf16>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// The same for results of arithmetic, in two thirds of the time: such a NaN is quiet, and rounding could lose
// only one whose payload was all ones in an input. The upper half is the result.
TRIREME_INLINE uint32_t RoundedBits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}
template <typename T>
TRIREME_INLINE T NarrowResult(float x);
template <>
TRIREME_INLINE float NarrowResult<float>(float x) {
  return x;
}
template <>
TRIREME_INLINE Bf16 NarrowResult<Bf16>(float x) {
  return static_cast<Bf16>(RoundedBits(x) >> 16);
}

// A float rounded to T and back.
template <typename T>
TRIREME_INLINE float Rounded(float x) {
  return Widen(Narrow<T>(x));
}

// e^x for x up to 88, as in every softmax, with a relative error below 2e-7; 0 below -87.3. NaN stays NaN.
TRIREME_INLINE float ExpUpTo88(float x) {
  constexpr float kLog2E = 1.44269504f, kRound = 12582912.0f;  // 1.5 · 2²³: adding it rounds to an integer
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const float limited = x < -87.3f ? -87.3f : x;
  const float shifted = limited * kLog2E + kRound;
  const float whole = shifted - kRound;
  const float r = (limited - whole * kLn2High) - whole * kLn2Low;  // |r| <= ln(2) / 2
  float p = 1.98756915e-4f;
  p = p * r + 1.39819994e-3f;
  p = p * r + 8.33345205e-3f;
  p = p * r + 4.16657962e-2f;
  p = p * r + 1.66666657e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  const float result = p * std::bit_cast<float>(exponent);
  return x < -87.3f ? 0.0f : result;
}

// The same for any x: e^88 above 88, near the limit of fp32.
TRIREME_INLINE float Exp(float x) { return ExpUpTo88(x > 88.0f ? 88.0f : x); }

}  // namespace trireme::cpu
