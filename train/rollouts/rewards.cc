#include "train/rollouts/rewards.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/record_fields.h"
#include "stages/policy_check.h"
#include "train/rollouts/python_reward.h"
#include "train/rollouts/reward_endpoint.h"
#include "train/rollouts/reward_program.h"

// clang-format off
#define TRIREME_REWARDS(REWARD)                       \
  REWARD("accuracy", AccuracyReward, "solution")      \
  REWARD("format", FormatReward, nullptr)             \
  REWARD("cosine", CosineReward, "solution")          \
  REWARD("repetition", RepetitionReward, nullptr)     \
  REWARD("soft_overlong", SoftOverlongReward, nullptr) \
  REWARD("length", LengthReward, nullptr)
// clang-format on

namespace trireme {

#define DECLARE(name, function, column) double function(const Judged& one, const Config& config);
TRIREME_REWARDS(DECLARE)
#undef DECLARE

// 0 up to `last` tokens before the longest completion's end, then falling to -1.
double OverlongPenalty(const Judged& one, double longest, double last);

namespace {

constexpr char kProgram[] = "program:", kPython[] = "python:", kOverlong[] = "soft_overlong:";

struct BuiltIn {
  const char* name;
  RewardFunction function;
  const char* column;  // that prompts must have; null: none
};

const std::vector<BuiltIn>& List() {
#define LINE(name, function, column) {name, function, column},
  static const std::vector<BuiltIn> list = {TRIREME_REWARDS(LINE)};
#undef LINE
  return list;
}

class BuiltInReward : public Reward {
 public:
  BuiltInReward(const BuiltIn& which, const Config& config) : which_(which), config_(config) {}

  std::vector<double> Of(std::span<const Judged> completions) override {
    std::vector<double> rewards;
    for (const Judged& one : completions) rewards.push_back(which_.function(one, config_));
    return rewards;
  }

  void CheckPrompts(const PromptSet& prompts) const override {
    for (int64_t i = 0; which_.column != nullptr && i < prompts.size(); ++i) {
      if (Has(prompts.at(i).record, which_.column)) continue;
      throw InputError("rl.rewards: ", which_.name, " needs the column '", which_.column, "', which prompt ", i + 1,
                       " of ", prompts.keys().files, " lacks; it has ", KeysOf(prompts.at(i).record),
                       ". data.columns renames keys");
    }
  }

 private:
  const BuiltIn which_;
  const Config config_;
};

// soft_overlong:TOKENS. Over all of a completion where the longest is shorter than that, as an evaluation's may be.
class OverlongReward : public Reward {
 public:
  OverlongReward(const std::string& name, const Config& config)
      : longest_(config.rl().max_new_tokens()), last_(std::min(TokensIn(name), longest_)) {}

  std::vector<double> Of(std::span<const Judged> completions) override {
    std::vector<double> rewards;
    for (const Judged& one : completions) rewards.push_back(OverlongPenalty(one, longest_, last_));
    return rewards;
  }

 private:
  static int TokensIn(const std::string& name) {
    const std::string digits = name.substr(std::string(kOverlong).size());
    const char* const end = digits.data() + digits.size();
    int tokens = 0;
    const auto read = std::from_chars(digits.data(), end, tokens);
    if (read.ec == std::errc() && read.ptr == end && tokens > 0) return tokens;
    throw InputError("rl.rewards has '", name,
                     "'; wanted soft_overlong:TOKENS, how many of the last tokens of the longest ",
                     "completion cost something, such as soft_overlong:4096");
  }

  const int longest_, last_;
};

}  // namespace

std::vector<std::string> BuiltInRewards() {
  std::vector<std::string> names;
  for (const BuiltIn& one : List()) names.emplace_back(one.name);
  return names;
}

std::unique_ptr<Reward> OpenReward(const std::string& name, const Config& config) {
  if (name.starts_with(kProgram)) {
    const std::string command = name.substr(std::string(kProgram).size());
    if (command.empty()) throw InputError("rl.rewards has 'program:' without a command; write program:./reward.py");
    return std::make_unique<RewardProgram>(AskedRewardOptionsOf(command, LogNameOf(name), config.rl()));
  }
  if (name.starts_with(kPython)) {
    const std::string target = name.substr(std::string(kPython).size());
    return std::make_unique<PythonReward>(AskedRewardOptionsOf(target, LogNameOf(name), config.rl()));
  }
  if (name.starts_with(kOverlong)) return std::make_unique<OverlongReward>(name, config);
  if (name.find("://") != std::string::npos) {
    return std::make_unique<RewardEndpoint>(AskedRewardOptionsOf(name, LogNameOf(name), config.rl()));
  }
  const auto found = std::ranges::find_if(List(), [&](const BuiltIn& one) { return name == one.name; });
  if (found != List().end()) return std::make_unique<BuiltInReward>(*found, config);
  throw InputError("rl.rewards has '", name,
                   "'; wanted python:FILE.py:FUNCTION, program:COMMAND, http://HOST:PORT/PATH, model:DIR or one of ",
                   Join(BuiltInRewards()));
}

bool ComparesAnswers(const std::string& name) {
  return std::ranges::any_of(List(), [&](const BuiltIn& one) { return name == one.name && one.column != nullptr; });
}

std::string LogNameOf(const std::string& name) {
  if (const std::optional<std::string> directory = RewardModelIn(name)) {
    const std::filesystem::path path = std::filesystem::path(*directory + "/.").lexically_normal().parent_path();
    return path.filename().empty() ? name : path.filename().string();
  }
  if (name.starts_with(kPython)) return PythonFunctionIn(name);
  if (name.starts_with(kOverlong)) return name.substr(0, std::string(kOverlong).size() - 1);
  if (!name.starts_with(kProgram)) return name;
  std::istringstream words(name.substr(std::string(kProgram).size()));
  std::string first;
  for (std::string word; words >> word;) {
    const std::filesystem::path path(word);
    const std::string extension = path.extension().string();
    if (first.empty()) first = path.filename().string();
    if (extension.size() > 1 && std::isalpha(static_cast<unsigned char>(extension[1])) != 0)
      return path.stem().string();
  }
  return first;
}

}  // namespace trireme
