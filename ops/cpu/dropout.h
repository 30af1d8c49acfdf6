// Dropout by place (ops/cpu/dropout_rule.h), and what is left of x added to a residual, as loops over rows.
// No torch; who splits the rows over threads is not said here.
#pragma once

#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct DropoutRows {
  const uint32_t* keys;       // [rows, 2]
  int64_t columns = 0;        // of a row
  uint32_t first_column = 0;  // the number of the first
  float rate = 0;
};

// y = residual + x · [kept] / (1 - rate); a null residual is zeros. y may be either.
void DropoutAdd(const float* x, const float* residual, const DropoutRows& rule, Rows rows, float* y);
void DropoutAdd(const Bf16* x, const Bf16* residual, const DropoutRows& rule, Rows rows, Bf16* y);

}  // namespace trireme::cpu
