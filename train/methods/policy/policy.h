// PolicyPass: the updates of policy training with one sampling's completions: computes advantages and the
// log-probabilities that ratios and the KL need, over all of them, before the first update; then lets the trainer
// differentiate one update after the other. Nothing in the loss depends on how completions were cut into micro batches,
// ranks, packs or rows. Who sampled and rewarded them is decided elsewhere.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/repeated_warning.h"
#include "train/methods/policy/ppo_pass.h"
#include "train/report/logged_step.h"
#include "train/rollouts/advantages.h"
#include "train/rollouts/rollout_rows.h"
#include "train/step/reference.h"
#include "train/step/trainer.h"

namespace trireme {

class PolicyPass {
 public:
  // `trainer` outlives it; its objective is the stage's. Opens the reference. Collective.
  // `checkpoint`: that the run resumes from.
  explicit PolicyPass(Trainer& trainer, const std::optional<std::filesystem::path>& checkpoint = {});

  Reference* reference() { return reference_.get(); }
  // Puts what the reference makes of the rows of an update into their micro batches on this rank. Collective.
  using AskTeacher = std::function<void(const RowSource& rows, std::vector<PassInput>& inputs)>;
  // Completions are then followed as the teacher would write them: none has a reward or an advantage.
  void FollowTeacher(AskTeacher ask) { teacher_ = std::move(ask); }
  PpoPass* ppo() { return ppo_.get(); }  // in stage ppo
  // The completions of the coming updates, groups side by side, and the names of the rewards to sum. Completions that
  // have an advantage keep it. Collective.
  void Begin(std::vector<Rollout> rollouts, const std::vector<std::string>& names);
  // The same with completions of one update whose advantages are given; their log-probabilities, if there are any, are
  // those of the old policy. Collective.
  void BeginGiven(std::vector<Rollout> rollouts);
  // Forward and backward over the completions of an update, counted from 0; the loss. Collective.
  double Pass(size_t update);
  // The next pass reports these, too.
  void AddToNext(const MetricValues& metrics) { sampling_metrics_.insert(metrics.begin(), metrics.end()); }
  // Of the last pass, by TRL's names; in the first one after Begin also those of the sampling.
  const MetricValues& metrics() const { return metrics_; }
  // The rows of the last pass.
  const RowSource& rows() const { return *updates_.at(last_).rows; }
  // The completions, with their advantages.
  const std::vector<Rollout>& rollouts() const { return rollouts_; }

 private:
  struct Update {
    Rows rows;
    std::vector<PassInput> inputs;  // of this rank
    BatchTotals totals;
    size_t first = 0;  // of its completions among all
  };

  void MakeUpdates(size_t count);
  void AskOld();
  void AskReference();
  void SetAdvantages(const std::vector<std::string>& names);
  void SetTokenAdvantages(const RewardTable& table);
  std::span<Rollout> RolloutsOf(const Update& update);
  // What each completion loses for its distance from the reference, where that is part of the reward.
  std::vector<double> Penalties();
  void PutAdvantages();
  double EntropyBound(const Update& update);
  double AddValueLoss(const Update& update, double loss);
  void AddSamplerDifference(const PassResult& result, const Update& update);

  Trainer& trainer_;
  Session& session_;
  std::unique_ptr<Reference> reference_;
  AskTeacher teacher_;  // null: the reference gives log-probabilities
  std::unique_ptr<PpoPass> ppo_;
  std::vector<Rollout> rollouts_;
  std::vector<Update> updates_;
  MetricValues sampling_metrics_, metrics_;
  RepeatedWarning nothing_learnt_;
  size_t last_ = 0;
};

}  // namespace trireme
