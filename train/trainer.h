// Trainer: a job's model, executor and optimizer, put together from a configuration; one optimizer step at a
// time. Which rows, how often, and what is logged is others' business.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/executor/executor.h"
#include "parallel/executor/model.h"
#include "parallel/sharding/optimizer.h"
#include "train/batches.h"
#include "train/data/rows.h"
#include "train/expert_balance.h"
#include "train/run_plan.h"
#include "train/run_site.h"

namespace trireme {

class Trace;

// Sums over rows that were evaluated.
struct EvaluationSums {
  double loss = 0;
  int64_t tokens = 0;  // that are trained
  int64_t right = 0;   // of these, predicted: the label has the largest logit

  double mean_loss() const { return loss / static_cast<double>(tokens); }
  double accuracy() const { return static_cast<double>(right) / static_cast<double>(tokens); }
};

class Trainer {
 public:
  // Collective. `job` and `graph` outlive the trainer; `trace` may be null.
  Trainer(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job, DType dtype,
          Trace* trace = nullptr);

  // First values: from a Hugging Face directory, or drawn from the seed. Once, before the first pass. What an
  // adapter adds or replaces comes from `adapter`, its files; without them low-rank pairs are drawn.
  void LoadWeights(const std::string& directory, const TensorSource* adapter = nullptr);
  void DrawWeights(uint64_t seed, const TensorSource* adapter = nullptr);

  // Forward and backward over the rows of a global batch, of which each rank reads its own; the mean loss of
  // all their trained tokens, the same on every rank.
  double Pass(const RowSource& rows, std::span<const int64_t> chosen);
  double Pass(const std::vector<Row>& rows);
  // Whether some rank was asked to stop (core/base/stop_signals.h) before the last pass was done: the same
  // answer on every rank, which the loss brings along.
  bool stop_agreed() const { return stop_agreed_; }
  // Of the last pass: the mean loss of each depth of multi-token prediction, over the whole batch.
  const std::vector<double>& depth_losses() const { return depth_losses_; }
  // Those of the rows that Pass reads on this rank.
  std::vector<int64_t> OwnRows(std::span<const int64_t> chosen) const;
  // Forward over all rows, as many at a time as a global batch has; the same on every rank.
  EvaluationSums Evaluate(const RowSource& rows);
  // Gradients are whole in their shares after it.
  GradientReport FinishGradients() { return optimizer_->FinishGradients(); }
  ShardedOptimizer& optimizer() { return *optimizer_; }

  // What routers did since the last call, over all ranks; collective. Empty where the model has no experts.
  ExpertBalance TakeBalance();
  // Moves the correction biases by `speed` towards experts that got less than the mean. The same on all
  // ranks.
  void MoveBiases(const ExpertBalance& balance, double speed);

  Model& model() { return *model_; }
  Communicator& world() { return site_.groups->Get("world"); }
  const TensorDevice& tensors() const { return site_.tensors; }
  const RunPlan& plan() const { return plan_; }
  // How long this rank has waited for others so far: in the pipeline, and in all other groups.
  double pipeline_wait_seconds() const;
  double other_wait_seconds() const;

 private:
  BatchShape Shape() const;
  // Collective, where something is ahead: how much, over all ranks.
  void ShareScales(std::vector<MicroBatch>& batches, const BatchShape& shape);
  Executor& ExecutorFor(int micro_batches);
  std::optional<uint64_t> DropoutSeed() const;
  Executor& EvaluatorFor(int micro_batches);
  std::unique_ptr<Executor> MakeExecutor(const Schedule& schedule);
  // [size]: this rank's part of a sum over all ranks: of what the head gave where it is here, then zeros.
  at::Tensor HeadGave(int64_t size);

  const LayerGraph& graph_;
  const RunPlan plan_;
  Job& job_;
  const int micro_batch_;
  const uint64_t seed_;
  const int64_t global_batch_;
  const double hidden_dropout_;
  const int64_t depths_;  // of multi-token prediction
  Trace* trace_;
  RunSite site_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  bool stop_agreed_ = false;
  std::vector<double> depth_losses_;
  std::map<int, std::unique_ptr<Executor>> executors_;   // by micro batches a step
  std::map<int, std::unique_ptr<Executor>> evaluators_;  // the same, forward only
};

}  // namespace trireme
