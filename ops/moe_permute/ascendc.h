// The host side of the kernels that move and combine entire rows: the experts' permutation, its weighted
// inverse, and the gradients of both. A negative row index means no row.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct RowShape {
  uint64_t from_rows;  // rows of the indexed side
  uint64_t rows, columns;
  uint64_t terms = 1;  // rows combined into one
};

// to[i] = from[index[i]] · weights[i]; null weights mean ones. The permutation, and the gradient of the
// inverse.
void GatherRows(const KernelPlace& place, Element element, const void* from, const int32_t* index, const float* weights,
                const RowShape& shape, void* to);

// to[i] = Σ_k from[index[i, k]] · weights[i, k]. The weighted inverse, and the gradient of the permutation.
void CombineRows(const KernelPlace& place, Element element, const void* from, const int32_t* index,
                 const float* weights, const RowShape& shape, void* to);

// dots[i, k] = <a[i], b[index[i, k]]>: the gradient of the weights.
void DotRows(const KernelPlace& place, Element element, const void* a, const void* b, const int32_t* index,
             const RowShape& shape, float* dots);

}  // namespace trireme::ascendc
