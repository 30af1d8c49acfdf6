// RetrievalPass: a step on whole texts up to its gradients. Scores and labels take one pass. Vectors take two: the
// first gives the vector of every text of the global batch, on all ranks and in all micro batches; of these every rank
// computes the loss and its gradient by each vector; the second pass differentiates the model (gradient caching). So
// the negatives of a step are those of its global batch, however it was cut into micro batches and ranks.
#pragma once

#include <span>

#include "data/rows.h"
#include "train/methods/retrieval/retrieval_evaluation.h"
#include "train/step/trainer.h"

namespace trireme {

class RetrievalPass {
 public:
  // `trainer` outlives it; its objective is the run's.
  explicit RetrievalPass(Trainer& trainer);

  // Forward and backward over rows of a global batch (data/text_rows.h); the loss. Collective.
  double Pass(const RowSource& rows, std::span<const int64_t> chosen);
  // Collective.
  Evaluation Evaluate(const RowSource& rows) { return evaluation_.Run(rows); }

 private:
  double PassOfVectors(const RowSource& rows, std::span<const int64_t> chosen);

  Trainer& trainer_;
  Session& session_;
  const TextLossOptions how_;
  const bool of_vectors_;
  RetrievalEvaluation evaluation_;
};

}  // namespace trireme
