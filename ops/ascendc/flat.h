// The host side of the kernels over flat memory: AdamW, sums of squares, scaling, adding into an fp32 sum.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

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
  float *master, *exp_avg, *exp_avg_sq;
  const float* gradient;
  void* parameter;  // gets the new master values, rounded to `element`; null: there is none
};
void AdamW(const KernelPlace& place, Element element, const AdamWState& state, uint64_t size,
           const AdamWFactors& factors);

// A sum for each block, to be added up.
uint32_t SumOfSquaresBlocks(const KernelPlace& place, uint64_t size);
void SumOfSquares(const KernelPlace& place, Element element, const void* values, uint64_t size, float* sums);

void Scale(const KernelPlace& place, Element element, void* values, uint64_t size, float factor);

// sum += addend, of which `element` is the type.
void AddInto(const KernelPlace& place, Element element, float* sum, const void* addend, uint64_t size);

}  // namespace trireme::ascendc
