// The two passes of cross-entropy over logits that stay in the compute dtype: statistics, small enough
// to be combined with those of other ranks, and the gradient in place. No autograd and no communication here:
// parallel/objectives combines them.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// The token ids of the logits' columns; columns beyond `count` are padding.
struct LogitColumns {
  int64_t first = 0;
  int64_t count = 0;
};

struct LogitStatistics {  // each [tokens], fp32
  at::Tensor largest;     // logit; -inf if no column is valid
  at::Tensor sum;         // of exp(logit - largest)
  at::Tensor picked;      // the label's logit, 0 if another rank holds it
};

// logits: [tokens, columns], contiguous; labels: [tokens] int64.
LogitStatistics StatisticsOfLogits(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns);

// logits = (exp(logits - log_sum_exp) - [column is the label]) · scale. log_sum_exp: [tokens] fp32, over all
// ranks.
void LogitsToGradient(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns,
                      const at::Tensor& log_sum_exp, double scale);

}  // namespace trireme
