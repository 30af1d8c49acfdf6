#include "train/rollouts/sampled_rollouts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "stages/policy_check.h"
#include "stages/sampler_check.h"
#include "train/rollouts/replay.h"
#include "train/rollouts/rollout_metrics.h"

namespace trireme {
namespace {

double SecondsAfter(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

SampledRollouts::SampledRollouts(Session& session, std::shared_ptr<const PromptSet> prompts)
    : session_(session), config_(session.config()), prompts_(std::move(prompts)) {
  if (config_.rl().sampler().endpoint().empty()) {
    own_ = std::make_unique<CompletionSampler>(config_, prompts_, session.job());
    if (HasSamplingLayout(config_)) {
      sampling_ = session.OpenUnder(UnderSamplingLayout(config_));
      refit_ = std::make_unique<Refit>(session, *sampling_);
    }
  } else {
    outside_ = std::make_unique<EndpointSampler>(config_, prompts_, VocabularyOf(session.graph()), session.job());
  }
  for (const std::string& name : config_.rl().rewards()) {
    names_.push_back(LogNameOf(name));
    const std::optional<std::string> directory = RewardModelIn(name);
    models_.push_back(directory ? std::make_unique<RewardModel>(session, *directory) : nullptr);
    const bool asks = !directory && session.job().rank() == 0;
    rewards_.push_back(asks ? OpenReward(name, config_) : nullptr);
  }
}

std::vector<Rollout> SampledRollouts::Draw(int64_t step, const std::vector<int64_t>& prompts, int64_t first) {
  if (outside_) return outside_->Draw(step, prompts, first);
  const auto start = std::chrono::steady_clock::now();
  if (refit_) {
    refit_->Run();
    metrics_["refit_seconds"] += SecondsAfter(start);
  }
  std::vector<Rollout> rollouts = own_->Draw(refit_ ? *sampling_ : session_, step, prompts, first);
  for (Rollout& rollout : rollouts) rollout.weights_step = step - 1;
  return rollouts;
}

void SampledRollouts::Prepare(int64_t step, const std::vector<int64_t>& prompts) {
  if (outside_) outside_->Prepare(step, prompts);
}

void SampledRollouts::UseWeights(const SharedWeights& weights) {
  if (outside_) outside_->UseWeights(weights);
}

// Models by all ranks, the rest by rank 0, which tells the others.
void SampledRollouts::Judge(std::vector<Rollout>& rollouts, const std::vector<int64_t>& prompts) {
  std::vector<double> table(rollouts.size() * names_.size());
  std::vector<Judged> judged;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    const int64_t prompt = prompts[i / static_cast<size_t>(config_.rl().group())];
    judged.push_back({&prompts_->at(prompt), &rollouts[i]});
  }
  double failures = 0;
  for (size_t r = 0; r < names_.size(); ++r) {
    if (!models_[r] && !rewards_[r]) continue;
    const std::vector<double> found = models_[r] ? models_[r]->Of(judged) : rewards_[r]->Of(judged);
    std::copy(found.begin(), found.end(), table.begin() + static_cast<int64_t>(r * rollouts.size()));
    if (rewards_[r]) failures += static_cast<double>(rewards_[r]->failures());
  }
  if (failures > 0) metrics_["reward_failures"] = failures;
  session_.job().BroadcastBytes(table.data(), table.size() * sizeof(double));
  for (size_t r = 0; r < names_.size(); ++r) {
    for (size_t i = 0; i < rollouts.size(); ++i) rollouts[i].rewards[names_[r]] = table[r * rollouts.size() + i];
  }
}

std::vector<Rollout> SampledRollouts::Sample(int64_t step, const std::vector<int64_t>& prompts, int64_t first) {
  std::vector<Rollout> rollouts = Draw(step, prompts, first);
  const auto drawn = std::chrono::steady_clock::now();
  Judge(rollouts, prompts);
  for (const auto& [name, value] : DrawMetrics()) {
    metrics_[name] = name == "sampling_seconds" ? metrics_[name] + value : value;
  }
  metrics_["reward_seconds"] += SecondsAfter(drawn);
  return rollouts;
}

// The same on every rank: all know all rewards.
void SampledRollouts::Resample(int64_t step, std::vector<Rollout>& rollouts) {
  const int64_t group = config_.rl().group();
  const std::vector<double> weights(config_.rl().reward_weights().begin(), config_.rl().reward_weights().end());
  const auto flat_groups = [&](const std::vector<Rollout>& of) {
    return GroupsWithoutSpread(TableOf(of, names_, weights, group));
  };
  const RandomStream choices = RandomStream(static_cast<uint64_t>(config_.run().seed()), "resampled prompts")
                                   .Branch(static_cast<uint64_t>(step));
  std::vector<int64_t> flat = flat_groups(rollouts);
  int64_t drawn = std::ssize(rollouts), exchanged = 0;
  uint64_t chosen = 0;
  for (int time = 0; time < config_.rl().max_resample_times() && !flat.empty(); ++time) {
    std::vector<int64_t> prompts;
    for (size_t i = 0; i < flat.size(); ++i) {
      prompts.push_back(static_cast<int64_t>(choices.Below(static_cast<uint64_t>(prompts_->size()), chosen++)));
    }
    const std::vector<Rollout> others = Sample(step, prompts, drawn);
    drawn += std::ssize(others);
    const std::vector<int64_t> still = flat_groups(others);
    std::vector<int64_t> left;
    for (size_t i = 0; i < flat.size(); ++i) {
      if (std::ranges::find(still, static_cast<int64_t>(i)) != still.end()) {
        left.push_back(flat[i]);
        continue;
      }
      std::copy_n(others.begin() + static_cast<int64_t>(i) * group, group, rollouts.begin() + flat[i] * group);
      ++exchanged;
    }
    flat = std::move(left);
  }
  metrics_["sampling/resampled_groups"] = static_cast<double>(exchanged);
}

std::vector<Rollout> SampledRollouts::Take(int64_t step, const std::vector<int64_t>& prompts) {
  metrics_.clear();
  std::vector<Rollout> rollouts = Sample(step, prompts, /*first=*/0);
  if (config_.rl().max_resample_times() > 0) Resample(step, rollouts);
  return rollouts;
}

}  // namespace trireme
