// RetrievalPass: a step on whole texts up to its gradients. Scores and labels take one pass. Vectors take two: the
// first gives the vector of every text of the global batch, on all ranks and in all micro batches; of these every rank
// computes the loss and its gradient by each vector; the second pass differentiates the model (gradient caching). So
// the negatives of a step are those of its global batch, however it was cut into micro batches and ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "data/rows.h"
#include "parallel/objectives/text_facts.h"
#include "parallel/objectives/vector_losses.h"
#include "train/evaluation/text_metrics.h"
#include "train/report/logged_step.h"
#include "train/step/trainer.h"

namespace trireme {

class RetrievalPass {
 public:
  // `trainer` outlives it; its objective is the run's.
  explicit RetrievalPass(Trainer& trainer);

  // Forward and backward over rows of a global batch (data/text_rows.h); the loss. Collective.
  double Pass(const RowSource& rows, std::span<const int64_t> chosen);
  // Forward over all rows, as many at a time as a global batch has: documents of other records are candidates only
  // within these. Collective.
  Evaluation Evaluate(const RowSource& rows);

 private:
  struct Evaluated;  // of an evaluation so far

  BatchTotals TotalsOfTexts(const TextBatch& batch, const RowSource& rows, std::span<const int64_t> chosen) const;
  double PassOfVectors(const RowSource& rows, std::span<const int64_t> chosen);
  // One pass forward: what it gives of each text of the batch, on every rank; [texts, numbers] fp32.
  at::Tensor NumbersOf(const TextBatch& batch, const std::vector<PassInput>& inputs, PassOptions options, double* loss);
  RankedQuery CandidatesOf(const TextBatch& batch, int64_t record, std::span<const float> cosines) const;
  void AddVectors(const TextBatch& batch, const at::Tensor& vectors, Evaluated& so_far) const;
  void AddScores(const TextBatch& batch, const at::Tensor& numbers, Evaluated& so_far) const;
  void EvaluateBatch(const RowSource& rows, std::span<const int64_t> chosen, Evaluated& so_far);

  Trainer& trainer_;
  Session& session_;
  const TextLossOptions how_;
  const bool of_vectors_;
  TextTotals fixed_;  // what all batches have in common
};

}  // namespace trireme
