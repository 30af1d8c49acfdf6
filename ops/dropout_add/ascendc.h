// The host side of the dropout kernel, which follows ops/dropout_add/dropout_rule.h.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct DropoutShape {
  const int32_t* keys;  // [rows, 2]
  uint64_t rows, columns;
  uint32_t first_column = 0;  // index of the first column
  float rate = 0;
};

// y = residual + x · [kept] / (1 - rate); a null residual: dropout alone, which is its own gradient.
void DropoutAdd(const KernelPlace& place, Element element, const void* x, const void* residual,
                const DropoutShape& shape, void* y);

}  // namespace trireme::ascendc
