// The log-probability of every label of some rows, on every rank, beside a pass forward and backward: what
// `trireme grads --log-probs` writes. For rows that fit into one host's memory.
#pragma once

#include <vector>

#include "train/data/rows.h"
#include "train/trainer.h"

namespace trireme {

struct RowLogProbs {
  double loss = 0;
  std::vector<std::vector<double>> rows;  // as long as each row, by label; NaN where none is trained
};

// Collective. The trainer's objective is log_probs.
RowLogProbs PassForLogProbs(Trainer& trainer, const std::vector<Row>& rows);

}  // namespace trireme
