// RemotePass: the passes of rows of remote training, each with its model's slot of the session's adapters: the
// log-probability of every target, and the gradient of minus their weighted sum. Short rows share micro batches,
// whichever models they belong to. Which loss the weights come from is not known here.
#pragma once

#include <vector>

#include "data/rows.h"
#include "train/remote/work_losses.h"
#include "train/step/trainer.h"

namespace trireme {

struct SlotRow {
  const TrainRow* row = nullptr;
  int64_t slot = 0;
};

class RemotePass {
 public:
  // The trainer's objective is log_probs; its session's adapters have `slots` slots; 0: it has no adapters. All outlive
  // it. Rows of one slot are best adjacent.
  RemotePass(Trainer& trainer, std::vector<SlotRow> rows, int64_t slots);

  // Nothing is differentiated. Collective, the same on every rank, as is all below.
  TokenTable LogProbs(bool adapters) const;
  // Gradients of - Σ weight · log p are added to the session's, in the rows' slots; the log-probabilities.
  TokenTable Backward(const TokenTable& weights) const;

 private:
  // Rows [first, end) as the documents of one packed row.
  struct Pack {
    size_t first = 0, end = 0;
  };
  struct Position {
    size_t row = 0;
    int64_t target = -1;  // -1: none is predicted there
  };
  std::vector<Pack> MakePacks() const;
  std::vector<Row> PackedRows(const TokenTable* weights) const;
  std::vector<PassInput> Inputs(const RowSource& list, bool slots) const;
  TokenTable Collect(const PassBatch& batch) const;

  Trainer& trainer_;
  const std::vector<SlotRow> rows_;
  const int64_t slots_;
  const std::vector<Pack> packs_;
  std::vector<std::vector<Position>> positions_;  // by pack and token of it
};

}  // namespace trireme
