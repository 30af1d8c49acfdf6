// Trainer: an objective and an optimizer for a session's model; one optimizer step at a time. Which rows, how often,
// and what is logged is others' business.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/objectives/objective.h"
#include "parallel/sharding/optimizer.h"
#include "session/session.h"
#include "train/batches.h"
#include "train/data/rows.h"
#include "train/expert_balance.h"

namespace trireme {

class Trainer {
 public:
  // `session` outlives it, and has gradients. objective: one of parallel/objectives/objectives.h; empty: the stage's.
  explicit Trainer(Session& session, const std::string& objective = "");

  // Forward and backward over the rows of a global batch, of which each rank reads its own; the objective's loss, by
  // its own normaliser over the whole batch, the same on every rank.
  double Pass(const RowSource& rows, std::span<const int64_t> chosen);
  double Pass(const std::vector<Row>& rows);
  // The same over micro batches that the caller makes and looks at afterwards.
  double Pass(PassBatch& batch);
  PassOptions OptionsOf(const BatchTotals& totals) const;
  // Of the last pass, over all ranks: what the objective reports, by name.
  const NamedSums& sums() const { return sums_; }
  // Whether some rank was asked to stop (core/base/stop_signals.h) before the last pass was done: the same
  // answer on every rank, which the sums bring along.
  bool stop_agreed() const;
  // Of the last pass: the mean loss of each depth of multi-token prediction, over the whole batch.
  std::vector<double> mtp_losses() const;
  // Those of the rows that Pass reads on this rank.
  std::vector<int64_t> OwnRows(std::span<const int64_t> chosen) const;
  // Gradients are whole in their shares after it.
  GradientReport FinishGradients() { return optimizer_->FinishGradients(); }
  ShardedOptimizer& optimizer() { return *optimizer_; }

  // What routers did since the last call, over all ranks; collective. Empty where the model has no experts.
  ExpertBalance TakeBalance();
  // Moves the correction biases by `speed` towards experts that got less than the mean. The same on all
  // ranks.
  void MoveBiases(const ExpertBalance& balance, double speed);

  Session& session() { return session_; }
  Model& model() { return session_.model(); }
  Communicator& world() { return session_.world(); }
  const TensorDevice& tensors() const { return session_.tensors(); }
  // How long this rank has waited for others so far: in the pipeline, and in all other groups.
  double pipeline_wait_seconds() const;
  double other_wait_seconds() const;

 private:
  // Collective, where the model predicts further tokens: how many there are of them, over all ranks.
  std::vector<BatchTotals> ReduceMtp(const std::vector<PassInput>& inputs, const BatchShape& shape);
  std::optional<uint64_t> DropoutSeed() const;

  Session& session_;
  const std::unique_ptr<Objective> objective_;
  const int64_t mtp_depths_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  NamedSums sums_;
};

}  // namespace trireme
