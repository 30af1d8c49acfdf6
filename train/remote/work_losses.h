// The losses of remote training over log-probabilities, in host memory: each gives its value and, of every position,
// what the log-probability has to count in a weighted pass so that the gradient is the loss's own. Sums over positions,
// never means. Terms of policies are those of a run's objectives (policy_terms.h). Who computed the log-probabilities,
// and for which parameters, is not known here.
#pragma once

#include <vector>

#include "train/remote/train_work.h"

namespace trireme {

using TokenTable = std::vector<std::vector<double>>;  // by row and target

struct LossValue {
  double loss = 0;
  std::vector<float> weights = {};  // -dloss/dp by position
};
// Of one datum; p: the model's log-probability of each target.
LossValue EvaluateLoss(const LossKind& kind, const LossNumbers& numbers, const LossInputs& inputs,
                       const std::vector<double>& p);

// Of the rows of `found` from `first_row` on: the weights, by row; the loss is added to the outcome. Weights that are
// not finite fail the outcome, and are zero.
TokenTable WeighWork(const TrainWork& work, const TokenTable& found, size_t first_row, TrainOutcome& outcome);

}  // namespace trireme
