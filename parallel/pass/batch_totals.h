// BatchTotals: counts over all micro batches and ranks of the global batch, fixed before the first micro batch, so that
// no loss depends on how rows were split. No torch.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/pass/facts_by_type.h"

namespace trireme {

struct BatchTotals {
  int64_t trained = 0;                // labels that are trained
  int64_t tokens = 0;                 // padding not counted
  int64_t samples = 0;                // pairs, single answers with a label, or completions
  FactsByType facts = {};             // what its objective knows of the batch beside these
  std::vector<BatchTotals> mtp = {};  // by depth of multi-token prediction

  double per_trained() const { return Reciprocal(trained); }
  double per_token() const { return Reciprocal(tokens); }
  double per_sample() const { return Reciprocal(samples); }

  static double Reciprocal(int64_t count) { return count > 0 ? 1.0 / static_cast<double>(count) : 0.0; }
};

}  // namespace trireme
