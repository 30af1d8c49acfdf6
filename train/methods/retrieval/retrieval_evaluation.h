// RetrievalEvaluation: how well a model's vectors, scores or labels fit the data: for evaluations of a run and for
// `trireme evaluate`. Trains nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "data/rows.h"
#include "parallel/objectives/vector_losses.h"
#include "parallel/pass/batch_totals.h"
#include "train/evaluation/text_metrics.h"
#include "train/report/logged_step.h"
#include "train/step/text_numbers.h"

namespace trireme {

// What the data says of the chosen rows (data/text_rows.h), the same on every rank.
TextBatch TextBatchOf(const RowSource& rows, std::span<const int64_t> chosen);
// of_all: what all batches have in common.
BatchTotals TextTotalsOf(const TextBatch& batch, const TextTotals& of_all, const RowSource& rows,
                         std::span<const int64_t> chosen);

class RetrievalEvaluation {
 public:
  // The session outlives it.
  explicit RetrievalEvaluation(Session& session);

  // Forward over all rows, as many at a time as a global batch has: documents of other records are candidates only
  // within these. Collective.
  Evaluation Run(const RowSource& rows);

  const TextNumbers& numbers() const { return numbers_; }

 private:
  struct Evaluated;  // of an evaluation so far

  RankedQuery CandidatesOf(const TextBatch& batch, int64_t record, std::span<const float> cosines) const;
  void AddVectors(const TextBatch& batch, const at::Tensor& vectors, Evaluated& so_far) const;
  void AddScores(const TextBatch& batch, const at::Tensor& numbers, Evaluated& so_far) const;
  void EvaluateBatch(const RowSource& rows, std::span<const int64_t> chosen, Evaluated& so_far);

  Session& session_;
  const TextLossOptions how_;
  const bool of_vectors_;
  const TextNumbers numbers_;
};

}  // namespace trireme
