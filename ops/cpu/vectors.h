// Vectors of fp32 lanes as values, for loops that keep many sums in registers, which plain loops over arrays
// do not: a gemm's tile, attention of one query. The compilers' own vectors, on every machine; functions are
// inlined into callers that are compiled for one generation of processors (WithLanes). No torch.
#pragma once

#include <cstdint>
#include <cstring>

#include "ops/cpu/lanes.h"

namespace trireme::cpu {

template <int kLanes>
struct Lanes {
  // GCC forgets the attribute in an alias.
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));       // NOLINT
  typedef uint32_t Words __attribute__((vector_size(kLanes * sizeof(uint32_t))));  // NOLINT

  static TRIREME_INLINE Floats Load(const float* x) {
    Floats lanes;
    std::memcpy(&lanes, x, sizeof(lanes));
    return lanes;
  }
  static TRIREME_INLINE void Store(Floats lanes, float* x) { std::memcpy(x, &lanes, sizeof(lanes)); }

  // Elements 0, 2, 4, … and 1, 3, 5, … of 2 · kLanes adjacent ones.
  struct EvenOdd {
    Floats even, odd;
  };
  static TRIREME_INLINE EvenOdd LoadPairs(const Bf16* x) {
    Words pairs;
    std::memcpy(&pairs, x, sizeof(pairs));
    return {(Floats)(pairs << 16), (Floats)(pairs & 0xffff0000u)};  // NOLINT: the same bits
  }

  // Halves are added until one lane is left.
  static TRIREME_INLINE float Sum(Floats lanes) {
    if constexpr (kLanes == 2) {
      float pair[2];
      std::memcpy(pair, &lanes, sizeof(pair));
      return pair[0] + pair[1];
    } else {
      typename Lanes<kLanes / 2>::Floats low, high;
      std::memcpy(&low, &lanes, sizeof(low));
      std::memcpy(&high, reinterpret_cast<const char*>(&lanes) + sizeof(low), sizeof(high));
      return Lanes<kLanes / 2>::Sum(low + high);
    }
  }
};

}  // namespace trireme::cpu
