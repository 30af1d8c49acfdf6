#include "train/rollouts/asked_reward.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/log.h"

namespace trireme {

AskedRewardOptions AskedRewardOptionsOf(const std::string& target, const std::string& name, const RlConfig& rl) {
  return {.target = target,
          .name = name,
          .seconds = rl.reward_seconds(),
          .skip_failures = rl.reward_failure() == FAILURE_SKIP};
}

std::vector<double> AskedReward::Of(std::span<const Judged> completions) {
  for (bool again = false;; again = true) {
    try {
      return Ask(completions);
    } catch (const Error& error) {
      Reset();
      ++failures_;
      if ((again || SpoiltTheLast()) && !options_.skip_failures) throw;
      TRIREME_LOG(WARNING) << error.what() << "; " << (again ? "these completions have no reward of it" : NextTry());
      if (again) return std::vector<double>(completions.size(), std::numeric_limits<double>::quiet_NaN());
    }
  }
}

Json QuestionAbout(const Judged& one) {
  const Rollout& rollout = *one.rollout;
  return {{"prompt", one.prompt->text.empty() ? Json() : Json(one.prompt->text)},
          {"completion", rollout.completion},
          {"prompt_ids", rollout.prompt_ids},
          {"completion_ids", rollout.completion_ids},
          {"truncated", rollout.truncated},
          {"columns", one.prompt->record}};
}

Rollout ProbeRollout(const PolicyPrompt& prompt) {
  return {.prompt = prompt.text, .completion = "42", .prompt_ids = prompt.ids, .completion_ids = {prompt.ids.back()}};
}

double RewardIn(const Json& answer, const std::string& text, const std::string& who, const std::string& wanted) {
  if (answer.is_null()) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kLargest = 1e15;  // its square fits in fp32
  if (answer.is_number() && std::abs(answer.get<double>()) <= kLargest) return answer.get<double>();
  throw RuntimeError(who, " answered '", text.substr(0, 80), "'; wanted ", wanted,
                     answer.is_number() ? ", at most 1e15 in size" : "");
}

}  // namespace trireme
