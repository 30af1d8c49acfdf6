// Reward programs that answer, die, hang and print rubbish.
#include "train/rollouts/reward_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace trireme {
namespace {

class RewardProgramTest : public testing::Test {
 protected:
  RewardProgramTest() {
    prompt_.record = {{"solution", "x"}};
    for (size_t i = 0; i < rollouts_.size(); ++i) rollouts_[i].completion_ids.assign(i + 1, 7);
    for (const Rollout& rollout : rollouts_) judged_.push_back({&prompt_, &rollout});
  }

  std::vector<double> Ask(const std::string& command, double seconds = 60) {
    return RewardProgram({.target = command, .name = "mine", .seconds = seconds}).Of(judged_);
  }
  std::string ErrorOf(const std::string& command, double seconds = 60) {
    try {
      Ask(command, seconds);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  PolicyPrompt prompt_;
  std::vector<Rollout> rollouts_{3};
  std::vector<Judged> judged_;
};

TEST_F(RewardProgramTest, AnswersALinePerCompletion) {
  const std::vector<double> found =
      Ask("n=0; while read line; do n=$((n+1)); [ $n = 2 ] && echo null || echo $n.5; done");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0], 1.5);
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], 3.5);
}

TEST_F(RewardProgramTest, IsKeptRunning) {
  RewardProgram program({.target = "n=0; while read line; do n=$((n+1)); echo $n; done", .name = "mine"});
  EXPECT_EQ(program.Of(judged_)[2], 3);
  EXPECT_EQ(program.Of(judged_)[0], 4);
}

TEST_F(RewardProgramTest, IsStartedAnewWhereItDied) {
  const std::filesystem::path mark = std::filesystem::temp_directory_path() / ("died-" + std::to_string(getpid()));
  const std::string dies_once = "[ -e " + mark.string() + " ] || { touch " + mark.string() + "; exit 3; }; ";
  const std::vector<double> found = Ask(dies_once + "while read line; do echo 2; done");
  std::filesystem::remove(mark);
  EXPECT_EQ(found, (std::vector<double>{2, 2, 2}));
}

TEST_F(RewardProgramTest, IsNamedWhereItFailsTwice) {
  EXPECT_NE(ErrorOf("exit 3").find("mine ended with status 3"), std::string::npos) << ErrorOf("exit 3");
  EXPECT_NE(ErrorOf("no-such-program-at-all").find("could not be run"), std::string::npos);
  EXPECT_NE(ErrorOf("read line; echo 1; sleep 60", 0.3).find("of 3 completions in rl.reward_seconds = 0.3"),
            std::string::npos);
  EXPECT_NE(ErrorOf("while read line; do echo hello; done").find("'hello'"), std::string::npos);
  EXPECT_NE(ErrorOf("while read line; do echo NaN; done").find("'NaN'"), std::string::npos);
}

TEST_F(RewardProgramTest, GivesNoRewardWhereFailuresAreSkipped) {
  RewardProgram program({.target = "exit 3", .name = "mine", .skip_failures = true});
  for (const double reward : program.Of(judged_)) EXPECT_TRUE(std::isnan(reward));
  EXPECT_EQ(program.failures(), 2);
}

TEST_F(RewardProgramTest, IsStartedAnewWhereItSaysTooMuch) {
  const std::filesystem::path mark = std::filesystem::temp_directory_path() / ("talked-" + std::to_string(getpid()));
  RewardProgram program({.target = "n=0; while read line; do n=$((n+1)); [ $n = 3 ] && [ ! -e " + mark.string() +
                                   " ] && { touch " + mark.string() + "; printf '3\\n9\\n'; } || echo $n; done",
                         .name = "mine"});
  EXPECT_EQ(program.Of(judged_), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(program.failures(), 1) << "before its rewards are used";
  std::filesystem::remove(mark);
}

TEST_F(RewardProgramTest, FailsWhereItAnswersTwicePerCompletion) {
  for (const char* twice : {"printf '1\\n5\\n'", "echo 1; echo 5"}) {
    const std::string said = ErrorOf(std::string("while read line; do ") + twice + "; done");
    EXPECT_NE(said.find("mine answered '5' without being asked; wanted one line per completion"), std::string::npos)
        << said;
  }
}

TEST_F(RewardProgramTest, FailsAtOnceWhereItSpokeAfterItsRewardsWereUsed) {
  const std::string stem = (std::filesystem::temp_directory_path() / ("late-" + std::to_string(getpid()))).string();
  const std::string may = stem + "-may", did = stem + "-did";
  RewardProgram program({.target = "n=0; while read line; do n=$((n+1)); echo $n; [ $n = 3 ] && { while [ ! -e " + may +
                                   " ]; do sleep 0.01; done; echo 9; touch " + did + "; }; done",
                         .name = "mine"});
  EXPECT_EQ(program.Of(judged_), (std::vector<double>{1, 2, 3}));
  std::ofstream(may) << "speak";
  while (!std::filesystem::exists(did)) usleep(1000);
  std::string said = "none";
  try {
    program.Of(judged_);
  } catch (const Error& error) {
    said = error.what();
  }
  std::filesystem::remove(may);
  std::filesystem::remove(did);
  EXPECT_NE(said.find("answered '9' without being asked"), std::string::npos) << said;
  EXPECT_EQ(program.failures(), 1) << "asking again does not mend what was used";
}

TEST_F(RewardProgramTest, FailsWhereARewardIsTooLargeToTrainOn) {
  const std::string said = ErrorOf("while read line; do echo 1e308; done");
  EXPECT_NE(said.find("mine answered '1e308'; wanted one line per completion with a finite number, or null for none, "
                      "at most 1e15 in size"),
            std::string::npos)
      << said;
}

TEST_F(RewardProgramTest, TakesMoreThanAPipeHolds) {
  rollouts_[0].completion.assign(1 << 20, 'a');
  EXPECT_EQ(Ask("while read -r line; do echo ${#line}; done").size(), 3U);
}

}  // namespace
}  // namespace trireme
