// PythonReward: a user's Python function as a reward, python:FILE.py:FUNCTION. It runs in a process of its own, the
// worker of the Python package (python/trireme/worker.py), which is sent all completions of a sampling as one line and
// answers with one. What forms a function may have, and what is wrong with one, is the worker's to say.
#pragma once

#include <string>
#include <vector>

#include "train/rollouts/asked_reward.h"
#include "train/rollouts/line_program.h"

namespace trireme {

// "f" of python:FILE.py:f; empty for another kind of reward.
std::string PythonFunctionIn(const std::string& reward);

class PythonReward : public AskedReward {
 public:
  // options.target: FILE.py:FUNCTION.
  explicit PythonReward(const AskedRewardOptions& options);
  // Loads the function once, so that one which cannot be asked ends the run before it begins.
  void CheckCode(const PromptSet& prompts) override;
  void Probe(const PromptSet& prompts) override;

 protected:
  std::vector<double> Ask(std::span<const Judged> completions) override;
  void Reset() override { program_.Stop(); }
  bool SpoiltTheLast() const override { return program_.said_too_much_late(); }
  std::string NextTry() const override { return "it is started anew and asked again"; }

 private:
  Json AnswerTo(const Json& question);

  LineProgram program_;
};

}  // namespace trireme
