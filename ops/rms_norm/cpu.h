// RMSNorm of rows, fused with the sum of residual and branch, and the gradient of both.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

template <typename T>
struct RmsNormRows {
  const T* x;       // [rows, size]
  const T* branch;  // added to x before the norm; null: none
  const T* weight;  // [size]
  T* sum;           // x + branch, if there is a branch
  T* y;
  float* scale;  // [rows], 1 / root mean square
  int64_t size;
  float eps;
};
void RmsNormForward(const RmsNormRows<float>& in, Rows rows);
void RmsNormForward(const RmsNormRows<Bf16>& in, Rows rows);

template <typename T>
struct RmsNormBackwardRows {
  const T* x;  // the normalised input
  const T* weight;
  const float* scale;
  const T* y_gradient;
  const T* sum_gradient;  // added to the result; null: none
  T* x_gradient;
  int64_t size;
};
// weight_sum: [size], summed over these rows.
void RmsNormBackward(const RmsNormBackwardRows<float>& in, Rows rows, float* weight_sum);
void RmsNormBackward(const RmsNormBackwardRows<Bf16>& in, Rows rows, float* weight_sum);

}  // namespace trireme::cpu
