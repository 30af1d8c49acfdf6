// Passes over flat fp32 memory: AdamW's update, a sum of squares, adding into a sum.
#pragma once

#include <cstdint>

#include "ops/cpu/adamw_factors.h"
#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct AdamWState {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  const float* gradient;
};

// Elements [begin, end). The parameter receives the new master value, rounded; the overload without has none.
void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements, Bf16* parameter);
void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements, float* parameter);
void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements);

double SumOfSquares(const float* values, Rows elements);

void AddInto(float* sum, const float* addend, Rows elements);
void AddInto(float* sum, const Bf16* addend, Rows elements);

}  // namespace trireme::cpu
