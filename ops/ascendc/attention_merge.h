// The host side of the kernel that joins partial results of ring attention.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

// sum [rows, columns] fp32 and lse [rows] become those of both parts; part: [rows, columns]. A row that has
// seen no key has -inf, or less than -1e30.
void AttentionMerge(const KernelPlace& place, Element element, float* sum, float* lse, const void* part,
                    const float* part_lse, uint64_t rows, uint64_t columns);

}  // namespace trireme::ascendc
