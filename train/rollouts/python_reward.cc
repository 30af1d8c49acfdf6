#include "train/rollouts/python_reward.h"

#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/own_files.h"
#include "core/base/process.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kFunctionPrefix[] = "python:";

// In an installation the package is around the program, in a clone it is python/trireme of a folder above.
std::string WorkerWords() {
  std::error_code error;
  for (fs::path folder = ProgramFolder(); folder.has_relative_path(); folder = folder.parent_path()) {
    for (const fs::path& worker : {folder / "worker.py", folder / "python/trireme/worker.py"}) {
      if (fs::exists(worker, error)) return ShellWord(worker.string());
    }
  }
  return "-m trireme.worker";
}

std::string PythonProgram() {
  const char* named = std::getenv("TRIREME_PYTHON");  // set by the Python front: the one that it runs in
  return named == nullptr || *named == '\0' ? "python3" : named;
}

std::string CommandOf(const AskedRewardOptions& options) {
  return Concat("exec ", ShellWord(PythonProgram()), " ", WorkerWords(), " reward ", ShellWord(options.target),
                " --seconds ", options.seconds);
}

std::string WhoIs(const std::string& target) {
  const size_t colon = target.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == target.size()) {
    throw InputError("rl.rewards has '", kFunctionPrefix, target, "'; wanted python:FILE.py:FUNCTION");
  }
  return Concat("the reward function ", target.substr(colon + 1), " of ", target.substr(0, colon));
}

}  // namespace

std::string PythonFunctionIn(const std::string& reward) {
  return reward.starts_with(kFunctionPrefix) ? reward.substr(reward.rfind(':') + 1) : "";
}

PythonReward::PythonReward(const AskedRewardOptions& options)
    : AskedReward(options), program_(CommandOf(options), WhoIs(options.target), options.seconds, "samplings") {}

Json PythonReward::AnswerTo(const Json& question) {
  const std::string line = program_.Ask({JsonLine(question)}).at(0);
  const Json answer = TryParseJson(line);
  if (answer.is_object() && answer.contains("error")) {
    throw RuntimeError(program_.who(), " ", answer.at("error").get<std::string>());
  }
  if (answer.is_object() && answer.contains("rewards")) return answer.at("rewards");
  throw RuntimeError(program_.who(), ": its worker answered '", line.substr(0, 80), "'; wanted {\"rewards\": [...]}");
}

std::vector<double> PythonReward::Ask(std::span<const Judged> completions) {
  Json asked = {{"completions", Json::array()}};
  for (const Judged& one : completions) asked["completions"].push_back(QuestionAbout(one));
  const Json found = AnswerTo(asked);
  if (found.size() != completions.size()) {
    throw RuntimeError(program_.who(), ": its worker answered with ", found.size(), " rewards for ", completions.size(),
                       " completions");
  }
  std::vector<double> rewards;
  for (const Json& one : found) rewards.push_back(RewardIn(one, JsonLine(one), program_.who(), "a finite number"));
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
