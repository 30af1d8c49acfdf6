// RewardSet: the rewards of rl.rewards, opened once: reward models on all ranks, the others on rank 0, which tells the
// rest what they answered. Who wrote the completions is decided elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "session/session.h"
#include "train/rollouts/advantages.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/reward_model.h"
#include "train/rollouts/rewards.h"
#include "train/rollouts/rollout.h"

namespace trireme {

class RewardSet {
 public:
  // Opens rl.rewards of `config`, which is the policy's or a change of it. `policy` outlives it. Collective.
  RewardSet(Session& policy, const Config& config);
  // The same with the reward models of another; programs and servers are opened anew.
  RewardSet(const RewardSet& other, const Config& config);

  // By their names in the log.
  const std::vector<std::string>& names() const { return names_; }
  // Gives each completion its rewards: groups of `group` side by side, each of the prompt with that index. Collective.
  void Judge(const PromptSet& prompts, const std::vector<int64_t>& indices, int64_t group,
             std::vector<Rollout>& rollouts);
  // On rank 0: how often rewards have failed so far.
  int64_t failures() const;
  // What Judge gave, with the configuration's weights.
  RewardTable TableOf(const std::vector<Rollout>& rollouts, int64_t group) const;

 private:
  void Open(const Config& config);

  Session& policy_;
  std::vector<std::string> names_;
  std::vector<double> weights_;                       // empty: 1 each
  std::vector<std::unique_ptr<Reward>> rewards_;      // on rank 0; null where all ranks ask a model
  std::vector<std::shared_ptr<RewardModel>> models_;  // null where rank 0 asks
};

}  // namespace trireme
