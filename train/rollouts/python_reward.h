// PythonReward: a user's Python function as a reward, python:FILE.py:FUNCTION, in a worker beside the program
// (train/programs/python_worker.h), which is sent all completions of a sampling at once.
#pragma once

#include <vector>

#include "train/programs/python_worker.h"
#include "train/rollouts/asked_reward.h"

namespace trireme {

class PythonReward : public AskedReward {
 public:
  // options.target: FILE.py:FUNCTION.
  explicit PythonReward(const AskedRewardOptions& options);
  // Loads the function once, so that one which cannot be asked ends the run before it begins.
  void CheckCode(const PromptSet& prompts) override;
  void Probe(const PromptSet& prompts) override;

 protected:
  std::vector<double> Ask(std::span<const Judged> completions) override;
  void Reset() override { worker_.Stop(); }
  bool SpoiltTheLast() const override { return worker_.said_too_much_late(); }
  std::string NextTry() const override { return "it is started anew and asked again"; }

 private:
  Json AnswerTo(const Json& question) { return worker_.Ask(question, "rewards"); }

  PythonWorker worker_;
};

}  // namespace trireme
