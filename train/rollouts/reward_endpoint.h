// RewardEndpoint: a reward by HTTP: all completions of a sampling in one POST, a number or null for each in the answer.
// Plain HTTP only; the connection is opened for each sampling, so that a server may restart between them.
#pragma once

#include <string>
#include <vector>

#include "train/rollouts/asked_reward.h"
#include "web/http/http_client.h"

namespace trireme {

// {"model": "model", "messages": [texts], "completions": [QuestionAbout each]} is answered with {"scores": [...]}, or
// with the list alone.
class RewardEndpoint : public AskedReward {
 public:
  explicit RewardEndpoint(const AskedRewardOptions& options)
      : AskedReward(options), target_(ParseHttpTarget(options.target, "rl.rewards")) {}

 protected:
  std::vector<double> Ask(std::span<const Judged> completions) override;
  std::string NextTry() const override { return "it is asked again"; }

 private:
  const HttpTarget target_;
};

}  // namespace trireme
