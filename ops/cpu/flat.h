// Passes over flat fp32 memory: AdamW's update, a sum of squares, adding into a sum.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

// Everything that AdamW's formula needs, with the corrections of this step worked in.
struct AdamWFactors {
  float decay;  // 1 - lr · weight_decay
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;           // lr / (1 - beta1^t)
  float inverse_correction;  // 1 / sqrt(1 - beta2^t)
  float eps;
  float gradient_scale;
};

struct AdamWState {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  const float* gradient;
};

// Elements [begin, end). The parameter gets the new master value, rounded; the overload without has none.
void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements, Bf16* parameter);
void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements, float* parameter);
void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements);

double SumOfSquares(const float* values, Rows elements);

void AddInto(float* sum, const float* addend, Rows elements);
void AddInto(float* sum, const Bf16* addend, Rows elements);

}  // namespace trireme::cpu
