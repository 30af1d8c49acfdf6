// RewardEndpoint: a reward by HTTP: all completions of a sampling in one POST, a number or null for each in the answer.
// Plain HTTP only; the connection is opened for each sampling, so that a server may restart between them.
#pragma once

#include <string>
#include <vector>

#include "train/rollouts/asked_reward.h"

namespace trireme {

// An address that was taken apart: http://HOST[:PORT][/PATH].
struct HttpAddress {
  std::string host, port, path;
};
// Refuses others, https among them.
HttpAddress ParseHttpAddress(const std::string& address);

// {"model": "model", "messages": [texts], "completions": [QuestionAbout each]} is answered with {"scores": [...]}, or with
// the list alone.
class RewardEndpoint : public AskedReward {
 public:
  explicit RewardEndpoint(const AskedRewardOptions& options)
      : AskedReward(options), address_(ParseHttpAddress(options.target)) {}

 protected:
  std::vector<double> Ask(std::span<const Judged> completions) override;
  std::string NextTry() const override { return "it is asked again"; }

 private:
  const HttpAddress address_;
};

}  // namespace trireme
