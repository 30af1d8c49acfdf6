#include "train/rollouts/reward_program.h"

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

}  // namespace trireme
