// The host side of the kernels over rows of logits. The first `columns` of `stride` are valid; the first one
// is token `first_token`.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct LogitShape {
  uint64_t rows, columns, stride, first_token;
};

// labels: [rows] int64; the statistics: [rows] fp32. A row without a valid column has the lowest fp32 as its
// largest logit.
void LogitStatistics(const KernelPlace& place, Element element, const void* logits, const int64_t* labels,
                     const LogitShape& shape, float* largest, float* sum, float* picked);

// logits = (exp(logits - log_sum_exp) - [column is the label]) · scale; invalid columns become 0.
void LogitGradient(const KernelPlace& place, Element element, void* logits, const int64_t* labels,
                   const LogitShape& shape, const float* log_sum_exp, float scale);

}  // namespace trireme::ascendc
