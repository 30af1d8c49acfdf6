// The host side of the kernels that merge partial results of ring attention, and that apply sinks to finished
// attention.
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

struct SinkShape {
  uint64_t rows, columns;  // rows: one per token and head, token by token; columns: of a head's output
  uint64_t heads;
};
constexpr uint64_t kSinksAgain = 64;  // sinks that follow those of all heads, from the first on again

// Why the kernel does not take this shape; nullptr if it does.
const char* WhyNotSinks(Element element, const SinkShape& shape);

// output [rows, columns] and lse [rows] become those with sinks: [heads + kSinksAgain] fp32. A row that has attended to
// no key has -inf.
void AttentionSinks(const KernelPlace& place, Element element, void* output, float* lse, const float* sinks,
                    const SinkShape& shape);

}  // namespace trireme::ascendc
