#include "train/rollouts/reward_set.h"

#include <algorithm>

#include "stages/other_models.h"
#include "stages/policy_check.h"
#include "train/rollouts/replay.h"

namespace trireme {

RewardSet::RewardSet(Session& policy, const Config& config) : policy_(policy) {
  const std::vector<OtherModel> models = OtherModels(config, ModelRole::kReward);  // in the order of rl.rewards
  auto next = models.begin();
  for (const std::string& name : config.rl().rewards()) {
    models_.push_back(RewardModelIn(name) ? std::make_shared<RewardModel>(policy, *next++) : nullptr);
  }
  Open(config);
}

RewardSet::RewardSet(const RewardSet& other, const Config& config) : policy_(other.policy_), models_(other.models_) {
  Open(config);
}

void RewardSet::Open(const Config& config) {
  weights_ = {config.rl().reward_weights().begin(), config.rl().reward_weights().end()};
  for (const std::string& name : config.rl().rewards()) {
    const bool asks = !models_[names_.size()] && policy_.job().rank() == 0;
    names_.push_back(LogNameOf(name));
    rewards_.push_back(asks ? OpenReward(name, config) : nullptr);
  }
}

void RewardSet::Judge(const PromptSet& prompts, const std::vector<int64_t>& indices, int64_t group,
                      std::vector<Rollout>& rollouts) {
  std::vector<double> table(rollouts.size() * names_.size());
  std::vector<Judged> judged;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    judged.push_back({&prompts.at(indices[i / static_cast<size_t>(group)]), &rollouts[i]});
  }
  for (size_t r = 0; r < names_.size(); ++r) {
    if (!models_[r] && !rewards_[r]) continue;
    const std::vector<double> found = models_[r] ? models_[r]->Of(judged) : rewards_[r]->Of(judged);
    std::copy(found.begin(), found.end(), table.begin() + static_cast<int64_t>(r * rollouts.size()));
  }
  policy_.job().BroadcastBytes(table.data(), table.size() * sizeof(double));
  for (size_t r = 0; r < names_.size(); ++r) {
    for (size_t i = 0; i < rollouts.size(); ++i) rollouts[i].rewards[names_[r]] = table[r * rollouts.size() + i];
  }
}

int64_t RewardSet::failures() const {
  int64_t failures = 0;
  for (const std::unique_ptr<Reward>& reward : rewards_) failures += reward ? reward->failures() : 0;
  return failures;
}

RewardTable RewardSet::TableOf(const std::vector<Rollout>& rollouts, int64_t group) const {
  return trireme::TableOf(rollouts, names_, weights_, group);
}

}  // namespace trireme
