// The host side of the kernel that joins partial results of ring attention.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct MergeShape {
  uint64_t rows, columns;
  // Rows of the sum lie in runs, as those of one head do that are part of more queries; 0: in one.
  uint64_t run_rows = 0;
  uint64_t run_stride = 0;  // rows from the beginning of a run to that of the next
};

// sum [rows, columns] fp32 and lse [rows] become those of both parts; part: [rows, columns], without runs. A
// row that has seen no key has -inf, or less than -1e30.
void AttentionMerge(const KernelPlace& place, Element element, float* sum, float* lse, const void* part,
                    const float* part_lse, const MergeShape& shape);

}  // namespace trireme::ascendc
