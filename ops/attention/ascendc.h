// The host side of the kernel that merges partial results of ring attention.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct MergeShape {
  uint64_t rows, columns;
  // Rows of the sum are in runs, like those of one head within more queries; 0: a single run.
  uint64_t run_rows = 0;
  uint64_t run_stride = 0;  // rows from the start of one run to the start of the next
};

// sum [rows, columns] fp32 and lse [rows] become those of both parts; part: [rows, columns], without runs. A
// row that has attended to no key has -inf, or less than -1e30.
void AttentionMerge(const KernelPlace& place, Element element, float* sum, float* lse, const void* part,
                    const float* part_lse, const MergeShape& shape);

}  // namespace trireme::ascendc
