// AskedReward: a reward that something outside this process gives, such as a program or an HTTP endpoint. Where it
// fails it is asked again, once; failing again it ends the run, or gives no reward. How it is asked is up to its kinds.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "train/rollouts/rewards.h"

namespace trireme {

struct AskedRewardOptions {
  std::string target;          // the command for the shell, or the address
  std::string name;            // in errors
  double seconds = 60;         // for the completions of one sampling
  bool skip_failures = false;  // failing twice, it gives no reward in place of an error
};
AskedRewardOptions AskedRewardOptionsOf(const std::string& target, const std::string& name, const RlConfig& rl);

class AskedReward : public Reward {
 public:
  explicit AskedReward(AskedRewardOptions options) : options_(std::move(options)) {}
  std::vector<double> Of(std::span<const Judged> completions) final;
  int64_t failures() const final { return failures_; }

 protected:
  const AskedRewardOptions& options() const { return options_; }
  // Rewards of all, or an error.
  virtual std::vector<double> Ask(std::span<const Judged> completions) = 0;
  // After an error, before it is asked again.
  virtual void Reset() {}
  // Whether the error says that the rewards of the call before were wrong: asking again does not mend it.
  virtual bool SpoiltTheLast() const { return false; }
  // What comes of a failure that is followed by another try: "it is started anew and asked again".
  virtual std::string NextTry() const = 0;

 private:
  const AskedRewardOptions options_;
  int64_t failures_ = 0;
};

// What is asked about a completion: prompt, completion, their ids, truncated, and the record's columns.
Json QuestionAbout(const Judged& one);
// A completion to probe a reward with before there are any.
Rollout ProbeRollout(const PolicyPrompt& prompt);
// A number, or NaN for null; `wanted` says in the error what an answer should have been, `who` who gave it.
double RewardIn(const Json& answer, const std::string& text, const std::string& who, const std::string& wanted);

}  // namespace trireme
