// Rows of logits: the statistics that cross-entropy needs, and their gradient in place. Only columns
// [0, columns) count; the rest of a row is padding of the vocabulary.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct LogitRows {
  int64_t stride = 0;       // elements a row
  int64_t columns = 0;      // that count
  const int64_t* labels;    // [rows], as token ids
  int64_t first_token = 0;  // id of column 0; labels outside of these columns are held elsewhere
};

struct LogitSums {
  float* largest;  // [rows]; -inf where no column counts
  float* sum;      // of exp(logit - largest)
  float* picked;   // the label's logit, 0 where it is held elsewhere
};
void LogitStatistics(const float* logits, const LogitRows& in, Rows rows, const LogitSums& out);
void LogitStatistics(const Bf16* logits, const LogitRows& in, Rows rows, const LogitSums& out);

// logits = (exp(logits - log_sum_exp) - [column is the label]) · scale; padding becomes 0.
void LogitsToGradient(float* logits, const LogitRows& in, Rows rows, const float* log_sum_exp, float scale);
void LogitsToGradient(Bf16* logits, const LogitRows& in, Rows rows, const float* log_sum_exp, float scale);

}  // namespace trireme::cpu
