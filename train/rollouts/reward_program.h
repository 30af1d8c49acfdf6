// RewardProgram: a user's own reward: a program that reads one JSON object per completion from its standard input and
// answers each with one line, a number or null, in order. It is started once and kept running; where it dies, hangs or
// answers with something else it is started anew.
#pragma once

#include <string>
#include <vector>

#include "train/programs/line_program.h"
#include "train/rollouts/asked_reward.h"

namespace trireme {

class RewardProgram : public AskedReward {
 public:
  explicit RewardProgram(const AskedRewardOptions& options)
      : AskedReward(options), program_(options.target, "the reward program " + options.name, options.seconds) {}
  // Asks twice, for a program that ends after its first answer is none for a run.
  void Probe(const PromptSet& prompts) override;

 protected:
  std::vector<double> Ask(std::span<const Judged> completions) override;
  void Reset() override { program_.Stop(); }
  bool SpoiltTheLast() const override { return program_.said_too_much_late(); }
  std::string NextTry() const override { return "it is started anew and asked again"; }

 private:
  LineProgram program_;
};

}  // namespace trireme
