// Trainer: an objective and an optimizer for a session's model; one optimizer step at a time. Which rows, how
// often, and what is logged is decided elsewhere.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/rows.h"
#include "parallel/objectives/objective.h"
#include "parallel/pass/pending_sums.h"
#include "parallel/sharding/optimizer.h"
#include "session/session.h"
#include "train/step/batches.h"
#include "train/step/exchange_forecast.h"
#include "train/step/expert_balance.h"

namespace trireme {

class Trainer {
 public:
  // `session` outlives it, and has gradients. objective: one of parallel/objectives/objectives.h; empty: the
  // stage's.
  explicit Trainer(Session& session, const std::string& objective = "");

  // Forward and backward over the rows of a global batch, of which each rank reads its own; the objective's
  // loss, by its own normaliser over the whole batch, the same on every rank.
  double Pass(const RowSource& rows, std::span<const int64_t> chosen);
  // The same without waiting for the loss, or for what routers choose (session/exchange_sizes.h): sums(), loss() and
  // stop_agreed() are known after FinishGradients, which waits anyway.
  // places: as in MakePassInputs.
  void StartPass(const RowSource& rows, std::span<const int64_t> chosen, std::span<const int64_t> places = {});
  void StartPass(const std::vector<Row>& rows);
  double Pass(const std::vector<Row>& rows);
  // The same over micro batches that the caller builds and inspects afterwards.
  double Pass(PassBatch& batch);
  PassOptions OptionsOf(const BatchTotals& totals) const;
  const Objective& objective() const { return *objective_; }
  // Of the last pass, over all ranks: the sums that the objective reports, by name.
  const NamedSums& sums() const { return sums_; }
  double loss() const { return sums_.at("loss"); }
  // Whether some rank was asked to stop (core/base/stop_signals.h) before the last pass was done: the same
  // answer on every rank, reduced along with the sums.
  bool stop_agreed() const;
  // Of the last pass: the mean loss of each depth of multi-token prediction, over the whole batch.
  std::vector<double> mtp_losses() const;
  // The chosen rows that Pass reads on this rank.
  std::vector<int64_t> OwnRows(std::span<const int64_t> chosen) const;
  // Afterwards the gradients in each rank's shard are complete. If some tokens of a started pass had no room on their
  // way to their experts, the pass is repeated here.
  GradientReport FinishGradients();
  int64_t repeats() const { return repeats_; }  // of passes, so far
  ShardedOptimizer& optimizer() { return *optimizer_; }

  // What routers did since the last call, over all ranks; collective. Empty if the model has no experts.
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
  // Collective, if the model has MTP layers: the totals of each depth, over all ranks.
  std::vector<BatchTotals> ReduceMtp(const std::vector<PassInput>& inputs, const BatchShape& shape);
  std::optional<uint64_t> DropoutSeed() const;
  std::unique_ptr<PassBatch> BatchOf(const RowSource& rows, std::span<const int64_t> chosen, bool expects_rows,
                                     std::span<const int64_t> places = {});
  void StartPass(PassBatch& batch);
  void TakeSums();
  GradientReport Repeat(const PassBatch& batch);

  Session& session_;
  const std::unique_ptr<Objective> objective_;
  const int64_t mtp_depths_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  std::optional<PendingSums> pending_sums_;  // of a pass that was started
  NamedSums sums_;
  std::optional<ExchangeForecast> forecast_;  // if exchanges of experts have expected sizes
  std::unique_ptr<PassBatch> started_;        // kept until it is known that all tokens had room
  int64_t repeats_ = 0;
};

}  // namespace trireme
