// PolicyEvaluation: the policy answers the prompts of data.valid, as the section eval says, and its answers are
// rewarded as those that it is trained on. Uses the weights as they are; no number of training is drawn or changed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "session/session.h"
#include "train/report/logged_step.h"
#include "train/rollouts/completion_sampler.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/reward_set.h"
#include "train/rollouts/rollout_source.h"
#include "train/rollouts/sampling_model.h"

namespace trireme {

class PolicyEvaluation {
 public:
  // `policy` outlives it. Shares with the source of training's completions what takes memory; its reward programs are
  // its own, so that those of training are asked about nothing else. Collective.
  PolicyEvaluation(Session& policy, std::shared_ptr<const PromptSet> prompts, const RolloutSource& source);
  // After so many steps. The same on every rank, but for the answers, which rank 0 has. Collective.
  Evaluation Run(int64_t step);

 private:
  std::vector<Rollout> Answers(int64_t step);
  std::string LinesOf(const std::vector<Rollout>& rollouts) const;

  Session& policy_;
  const Config config_;  // as an evaluation samples
  const std::shared_ptr<const PromptSet> prompts_;
  const std::vector<std::string> sources_;  // of the prompts' data
  std::vector<int64_t> all_;                // prompts
  CompletionSampler sampler_;
  const std::shared_ptr<SamplingModel> model_;
  const std::unique_ptr<RewardSet> rewards_;
};

}  // namespace trireme
