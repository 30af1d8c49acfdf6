// Rows of logits: the statistics that cross-entropy needs, and their gradient in place. Only columns
// [0, columns) are valid; the rest of a row is vocabulary padding.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct LogitRows {
  int64_t stride = 0;       // elements per row
  int64_t columns = 0;      // valid ones
  const int64_t* labels;    // [rows], as token ids
  int64_t first_token = 0;  // id of column 0; labels outside these columns are on other ranks
};

struct LogitSums {
  float* largest;  // [rows]; -inf if no column is valid
  float* sum;      // of exp(logit - largest)
  float* picked;   // the label's logit, 0 if another rank holds it
};
void LogitStatistics(const float* logits, const LogitRows& in, Rows rows, const LogitSums& out);
void LogitStatistics(const Bf16* logits, const LogitRows& in, Rows rows, const LogitSums& out);

// logits = (exp(logits - log_sum_exp) - [column is the label]) · scale; padding becomes 0.
void LogitsToGradient(float* logits, const LogitRows& in, Rows rows, const float* log_sum_exp, float scale);
void LogitsToGradient(Bf16* logits, const LogitRows& in, Rows rows, const float* log_sum_exp, float scale);

}  // namespace trireme::cpu
