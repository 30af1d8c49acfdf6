// RewardProgram: a user's own reward: a program that reads one JSON object per completion from its standard input and
// answers each with one line, a number or null, in order. It is started once and kept running; where it dies, hangs or
// answers with something else it is started anew and the sampling is asked again, once; failing again it ends the run, or gives no reward.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "train/rollouts/rewards.h"

namespace trireme {

struct RewardProgramOptions {
  std::string command;  // for the shell
  std::string name;     // in errors
  double seconds = 60;  // for the completions of one sampling
  bool skip_failures = false;  // failing twice, it gives no reward in place of an error
};

class RewardProgram : public Reward {
 public:
  explicit RewardProgram(RewardProgramOptions options) : options_(std::move(options)) {}
  ~RewardProgram() override;
  RewardProgram(const RewardProgram&) = delete;
  RewardProgram& operator=(const RewardProgram&) = delete;

  std::vector<double> Of(std::span<const Judged> completions) override;
  int64_t failures() const override { return failures_; }

 private:
  void Start();
  void Stop();
  // Writes the text and reads so many lines; throws where that fails or takes too long.
  std::vector<std::string> Ask(const std::string& text, size_t lines);
  std::string HowItEnded();
  void RefuseExtraLines();

  const RewardProgramOptions options_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string unread_;
  int64_t failures_ = 0;
};

}  // namespace trireme
