// The host side of the kernels over flat memory: AdamW, sums of squares, scaling, adding into an fp32 sum.
#pragma once

#include "ops/ascendc/tiling.h"
#include "ops/cpu/adamw_factors.h"

namespace trireme::ascendc {

struct AdamWState {
  float *master, *exp_avg, *exp_avg_sq;
  const float* gradient;
  void* parameter;  // receives the new master values, rounded to `element`; null: none
};
void AdamW(const KernelPlace& place, Element element, const AdamWState& state, uint64_t size,
           const AdamWFactors& factors);

// One partial sum per block.
uint32_t SumOfSquaresBlocks(const KernelPlace& place, uint64_t size);
void SumOfSquares(const KernelPlace& place, Element element, const void* values, uint64_t size, float* sums);

void Scale(const KernelPlace& place, Element element, void* values, uint64_t size, float factor);

// sum += addend, whose dtype is `element`.
void AddInto(const KernelPlace& place, Element element, float* sum, const void* addend, uint64_t size);

}  // namespace trireme::ascendc
