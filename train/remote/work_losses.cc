#include "train/remote/work_losses.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace trireme {

TokenTable WeighWork(const TrainWork& work, const TokenTable& found, size_t first_row, TrainOutcome& outcome) {
  TokenTable weights;
  const LossKind& kind = *FindLoss(work.loss);
  for (size_t i = 0; i < work.rows.size(); ++i) {
    LossValue value = EvaluateLoss(kind, work.numbers, work.rows[i].inputs, found[first_row + i]);
    outcome.loss += value.loss;
    if (!std::all_of(value.weights.begin(), value.weights.end(), [](float weight) { return std::isfinite(weight); })) {
      outcome.error = Concat("row ", i, ": a ratio of probabilities overflows; are its logprobs of this model?");
      outcome.users_fault = true;
      value.weights.assign(value.weights.size(), 0.0F);
    }
    weights.emplace_back(value.weights.begin(), value.weights.end());
  }
  return weights;
}

}  // namespace trireme
