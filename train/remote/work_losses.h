// What a unit's loss makes of its log-probabilities: the loss itself, and what each of them counts in the gradient.
// Plain numbers; who computed them, and for which parameters, is not known here.
#pragma once

#include <vector>

#include "train/remote/train_work.h"

namespace trireme {

using TokenTable = std::vector<std::vector<double>>;  // by row and target

// Of the rows of `found` from `first_row` on: the weights, by row; the loss is added to the outcome. Weights that are
// not finite fail the outcome, and are zero.
TokenTable WeighWork(const TrainWork& work, const TokenTable& found, size_t first_row, TrainOutcome& outcome);

}  // namespace trireme
