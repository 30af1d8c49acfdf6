// The host side of the RMSNorm kernels. Memory belongs to the place's device; calls do not wait for the
// kernel.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct RmsNormForwardArgs {
  const void* x;       // [rows, columns]
  const void* branch;  // null: none
  const void* weight;  // [columns]
  void* sum;           // x + branch, if there is a branch
  void* y;
  float* scale;  // [rows]
  uint64_t rows, columns;
  float eps;
};
void RmsNormForward(const KernelPlace& place, Element element, const RmsNormForwardArgs& args);

struct RmsNormBackwardArgs {
  const void* x;  // the normalised input
  const void* weight;
  const float* scale;
  const void* y_gradient;
  const void* carried;  // added to the result; null: none
  void* x_gradient;
  float* weight_sums;  // [blocks, columns], zeroed by the caller: one partial sum per block
  uint64_t rows, columns;
};
uint32_t RmsNormBackwardBlocks(const KernelPlace& place, uint64_t rows);
void RmsNormBackward(const KernelPlace& place, Element element, const RmsNormBackwardArgs& args);

}  // namespace trireme::ascendc
