// Dropout by position (ops/dropout_add/dropout_rule.h), optionally added to a residual, as loops over rows.
// No torch; the caller splits the rows over threads.
#pragma once

#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct DropoutRows {
  const uint32_t* keys;       // [rows, 2]
  int64_t columns = 0;        // per row
  uint32_t first_column = 0;  // index of the first column
  float rate = 0;
};

// y = residual + x · [kept] / (1 - rate); a null residual means zeros. y may alias either.
void DropoutAdd(const float* x, const float* residual, const DropoutRows& rule, Rows rows, float* y);
void DropoutAdd(const Bf16* x, const Bf16* residual, const DropoutRows& rule, Rows rows, Bf16* y);

}  // namespace trireme::cpu
