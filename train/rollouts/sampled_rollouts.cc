#include "train/rollouts/sampled_rollouts.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "train/rollouts/rollout_metrics.h"

namespace trireme {
SampledRollouts::SampledRollouts(Session& session, std::shared_ptr<const PromptSet> prompts)
    : config_(session.config()), prompts_(std::move(prompts)) {
  if (config_.rl().sampler().endpoint().empty()) {
    own_ = std::make_unique<CompletionSampler>(config_, prompts_, session.job(), TrainingDraw(config_));
    model_ = std::make_shared<SamplingModel>(session);
  } else {
    outside_ = std::make_unique<EndpointSampler>(config_, prompts_, VocabularyOf(session.graph()), session.job());
  }
  rewards_ = std::make_shared<RewardSet>(session, config_);
}

std::vector<Rollout> SampledRollouts::Draw(int64_t step, const std::vector<int64_t>& prompts, int64_t first) {
  if (outside_) return outside_->Draw(step, prompts, first);
  const auto start = Clock::now();
  Session& model = model_->UpToDate();
  if (model_->is_copy()) metrics_["refit_seconds"] += SecondsSince(start);
  std::vector<Rollout> rollouts = own_->Draw(model, step, prompts, first);
  for (Rollout& rollout : rollouts) rollout.weights_step = step - 1;
  return rollouts;
}

void SampledRollouts::Prepare(int64_t step, const std::vector<int64_t>& prompts) {
  if (outside_) outside_->Prepare(step, prompts);
}

void SampledRollouts::UseWeights(const SharedWeights& weights) {
  if (outside_) outside_->UseWeights(weights);
}

std::vector<Rollout> SampledRollouts::Sample(int64_t step, const std::vector<int64_t>& prompts, int64_t first) {
  std::vector<Rollout> rollouts = Draw(step, prompts, first);
  const auto drawn = Clock::now();
  rewards_->Judge(*prompts_, prompts, config_.rl().group(), rollouts);
  if (rewards_->failures() > 0) metrics_["reward_failures"] = static_cast<double>(rewards_->failures());
  for (const auto& [name, value] : DrawMetrics()) {
    metrics_[name] = name == "sampling_seconds" ? metrics_[name] + value : value;
  }
  metrics_["reward_seconds"] += SecondsSince(drawn);
  return rollouts;
}

// The same on every rank: all know all rewards.
void SampledRollouts::Resample(int64_t step, std::vector<Rollout>& rollouts) {
  const int64_t group = config_.rl().group();
  const auto flat_groups = [&](const std::vector<Rollout>& of) {
    return GroupsWithoutSpread(rewards_->TableOf(of, group));
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
