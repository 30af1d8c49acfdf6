// Copies rows to their positions and sums them back, see ops/moe_permute/moe_permute.h.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct Positions {
  const int64_t* rows;  // [tokens, k]; -1: none
  int64_t k = 1;
  int64_t copies = 1;  // of the buffer, consecutive
  int64_t copy_rows = 0;
};

void SpreadRows(const void* x, int64_t row_bytes, const Positions& positions, Rows tokens, void* out);

// out[token] = sum of the rows at its positions in every copy
void SumRows(const float* rows, int64_t size, const Positions& positions, Rows tokens, float* out);
void SumRows(const Bf16* rows, int64_t size, const Positions& positions, Rows tokens, Bf16* out);

}  // namespace trireme::cpu
