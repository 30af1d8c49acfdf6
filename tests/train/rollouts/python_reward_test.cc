// Python functions as rewards: asked with all completions at once, named where they fail. Their forms are
// tests/scripts/callbacks_test's.
#include "train/rollouts/python_reward.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace trireme {
namespace {

class PythonRewardTest : public testing::Test {
 protected:
  PythonRewardTest() : file_(std::filesystem::temp_directory_path() / Concat("rewards-", getpid(), ".py")) {
    std::ofstream(file_)
        << "import os, sys\n"
           "def lengths(completions, solution, **columns):\n"
           "    print('no answer')\n"
           "    return [len(text) + len(right) if text else None for text, right in zip(completions, solution)]\n"
           "def few(completions): return [1]\n"
           "def dies(completions): os._exit(7)\n"
           "def large(completions): return [1e308] * len(completions)\n";
    prompt_.text = "q";
    prompt_.record = {{"solution", "xy"}};
    rollouts_[0].completion = "abc";
    rollouts_[2].completion = "a";
    for (const Rollout& rollout : rollouts_) judged_.push_back({&prompt_, &rollout});
  }
  ~PythonRewardTest() override { std::filesystem::remove(file_); }

  PythonReward Named(const std::string& function, bool skip = false) {
    return PythonReward(
        {.target = file_.string() + ":" + function, .name = function, .seconds = 20, .skip_failures = skip});
  }
  std::string ErrorOf(const std::string& function) {
    try {
      Named(function).Of(judged_);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  const std::filesystem::path file_;
  PolicyPrompt prompt_;
  std::vector<Rollout> rollouts_{3};
  std::vector<Judged> judged_;
};

TEST_F(PythonRewardTest, AnswersForAllCompletionsOfASampling) {
  PythonReward reward = Named("lengths");
  for (int sampling = 0; sampling < 2; ++sampling) {
    const std::vector<double> found = reward.Of(judged_);
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0], 5);
    EXPECT_TRUE(std::isnan(found[1]));
    EXPECT_EQ(found[2], 3);
  }
  EXPECT_EQ(reward.failures(), 0);
}

TEST_F(PythonRewardTest, IsNamedWhereItFailsTwice) {
  const std::string who = Concat("the reward function few of ", file_.string());
  EXPECT_EQ(ErrorOf("few"), Concat(who, " returned 1 values for 3 completions"));
  EXPECT_NE(ErrorOf("dies").find("ended with status 7"), std::string::npos) << ErrorOf("dies");
  EXPECT_NE(ErrorOf("large").find("at most 1e15 in size"), std::string::npos) << ErrorOf("large");
  EXPECT_NE(ErrorOf("none").find("is not in "), std::string::npos) << ErrorOf("none");
}

TEST_F(PythonRewardTest, GivesNoRewardWhereFailuresAreSkipped) {
  PythonReward reward = Named("dies", /*skip=*/true);
  for (const double one : reward.Of(judged_)) EXPECT_TRUE(std::isnan(one));
  EXPECT_EQ(reward.failures(), 2);
}

TEST_F(PythonRewardTest, NeedsAFileAndAFunction) {
  for (const char* target : {"", ":", "rewards.py", "rewards.py:", ":lengths"}) {
    EXPECT_THROW(PythonReward({.target = target, .name = "mine"}), Error) << target;
  }
}

}  // namespace
}  // namespace trireme
