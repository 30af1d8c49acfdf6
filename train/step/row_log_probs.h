// The log-probability of every label of some rows, on every rank, along with a forward and backward pass:
// what `trireme grads --log-probs` writes. For rows that fit into one host's memory.
#pragma once

#include <vector>

#include "data/rows.h"
#include "train/step/trainer.h"

namespace trireme {

struct RowLogProbs {
  double loss = 0;
  std::vector<std::vector<double>> rows;  // as long as each row, by label; NaN for untrained labels
};

// Collective. The trainer's objective must be log_probs.
RowLogProbs PassForLogProbs(Trainer& trainer, const std::vector<Row>& rows);

}  // namespace trireme
