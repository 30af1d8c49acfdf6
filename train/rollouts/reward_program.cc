#include "train/rollouts/reward_program.h"

#include "core/base/error.h"

namespace trireme {

std::vector<double> RewardProgram::Ask(std::span<const Judged> completions) {
  std::vector<std::string> lines;
  for (const Judged& one : completions) lines.push_back(JsonLine(QuestionAbout(one)));
  std::vector<double> rewards;
  for (const std::string& answer : program_.Ask(lines)) {
    rewards.push_back(RewardIn(TryParseJson(answer), answer, program_.who(),
                               "one line per completion with a finite number, or null for none"));
  }
  return rewards;
}

void RewardProgram::Probe(const PromptSet& prompts) {
  if (options().skip_failures || prompts.size() == 0) return;
  const PolicyPrompt& prompt = prompts.at(0);
  const Rollout rollout = ProbeRollout(prompt);
  const Judged one{&prompt, &rollout};
  try {
    for (int asked = 0; asked < 2; ++asked) Ask({&one, 1});
  } catch (const Error& error) {
    throw InputError("rl.rewards: ", error.what(),
                     "; wanted a program that answers each line of its standard input with one, until that ends");
  }
  Reset();
}

}  // namespace trireme
