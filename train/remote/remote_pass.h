// RemotePass: the passes of one unit of remote training: the log-probability of every target, and the gradient of minus their
// weighted sum. Which loss the weights come from is not known here.
#pragma once

#include <vector>

#include "train/data/rows.h"
#include "train/remote/train_work.h"
#include "train/trainer.h"

namespace trireme {

using TokenTable = std::vector<std::vector<double>>;  // by row and target

class RemotePass {
 public:
  // The trainer's objective is log_probs. Both outlive it.
  RemotePass(Trainer& trainer, const std::vector<TrainRow>& rows);

  // Nothing is differentiated. Collective, the same on every rank, as is all below.
  TokenTable LogProbs(bool adapters) const;
  // Gradients of - Σ weight · log p are added to the model's; the log-probabilities.
  TokenTable Backward(const TokenTable& weights) const;

 private:
  TokenTable Collect(const PassBatch& batch) const;
  std::vector<Row> RowsWith(const TokenTable* weights) const;

  Trainer& trainer_;
  const std::vector<TrainRow>& rows_;
};

}  // namespace trireme
