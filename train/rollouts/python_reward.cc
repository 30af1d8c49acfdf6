#include "train/rollouts/python_reward.h"

#include "core/base/error.h"

namespace trireme {

PythonReward::PythonReward(const AskedRewardOptions& options)
    : AskedReward(options),
      worker_({.kind = "reward",
               .target = options.target,
               .key = "rl.rewards",
               .seconds = options.seconds,
               .asked = "samplings"}) {}

std::vector<double> PythonReward::Ask(std::span<const Judged> completions) {
  Json asked = {{"completions", Json::array()}};
  for (const Judged& one : completions) asked["completions"].push_back(QuestionAbout(one));
  const Json found = AnswerTo(asked);
  if (found.size() != completions.size()) {
    throw RuntimeError(worker_.who(), ": its worker answered with ", found.size(), " rewards for ", completions.size(),
                       " completions");
  }
  std::vector<double> rewards;
  for (const Json& one : found) rewards.push_back(RewardIn(one, JsonLine(one), worker_.who(), "a finite number"));
  return rewards;
}

void PythonReward::CheckCode(const PromptSet& prompts) {
  if (prompts.size() == 0) return;
  try {
    AnswerTo({{"check", prompts.at(0).record}});
  } catch (const Error& error) {
    throw InputError("rl.rewards: ", error.what());
  }
  Reset();
}

void PythonReward::Probe(const PromptSet& prompts) {
  CheckCode(prompts);
  if (options().skip_failures || prompts.size() == 0) return;
  const PolicyPrompt& prompt = prompts.at(0);
  const Rollout rollout = ProbeRollout(prompt);
  const Judged one{&prompt, &rollout};
  try {
    Ask({&one, 1});
  } catch (const Error& error) {
    throw InputError("rl.rewards: ", error.what());
  }
  Reset();
}

}  // namespace trireme
