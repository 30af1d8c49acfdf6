// Rewards: what a completion is worth, by name. Built-in ones are a file each with a function, or several with related
// ones, and a line in the list of rewards.cc. Those of rl.rewards are opened once and asked about all completions of a
// sampling together, on one rank. No torch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rollout.h"

namespace trireme {

// A completion with the record of its prompt.
struct Judged {
  const PolicyPrompt* prompt;
  const Rollout* rollout;
};

class Reward {
 public:
  virtual ~Reward() = default;
  // Of each, in their order; NaN: none is given. An error names the reward and what it wanted.
  virtual std::vector<double> Of(std::span<const Judged> completions) = 0;
  // Refuses prompts that lack a column which it needs.
  virtual void CheckPrompts(const PromptSet& /*prompts*/) const {}
  // Refuses code of the user's that cannot be asked at all. On one rank, since it is started for this.
  virtual void CheckCode(const PromptSet& /*prompts*/) {}
  // Refuses what would fail at the first sampling, by asking about a prompt; for a run that is only planned.
  virtual void Probe(const PromptSet& /*prompts*/) {}
  // How often it has failed so far and was asked again, or given up.
  virtual int64_t failures() const { return 0; }
};

// A number of one completion and its prompt's record, by the run's configuration.
using RewardFunction = double (*)(const Judged& one, const Config& config);

std::vector<std::string> BuiltInRewards();
// A name of the list, python:FILE.py:FUNCTION, program:COMMAND, or http://HOST:PORT/PATH. Refuses others.
std::unique_ptr<Reward> OpenReward(const std::string& name, const Config& config);
// Whether it is one of the list that compares the completion's answer with the prompt's.
bool ComparesAnswers(const std::string& name);
// How a reward is called in logs: its name, of a model that of its directory, of a Python function its own, of a
// program that of its first file with an extension, as reward of program:python3 ./reward.py, otherwise of the command;
// of an endpoint its address.
std::string LogNameOf(const std::string& name);

}  // namespace trireme
