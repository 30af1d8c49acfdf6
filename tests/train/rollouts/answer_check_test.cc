// Answers in texts, and which of them are the same.
#include "train/rollouts/answer_check.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(AnswerInTest, TakesWhatIsMarked) {
  EXPECT_EQ(AnswerIn("so <answer>4</answer>, no: <answer>5</answer>."), "5");
  EXPECT_EQ(AnswerIn("thus \\boxed{\\frac{1}{2}} holds"), "\\frac{1}{2}");
  EXPECT_EQ(AnswerIn("<answer>it is \\boxed{7}</answer>"), "7");
  EXPECT_EQ(AnswerIn("Friday."), "Friday.");
  EXPECT_EQ(AnswerIn("\\boxed{open"), "\\boxed{open");
}

TEST(NumberInTest, ReadsUsualForms) {
  EXPECT_EQ(NumberIn("1,234.5"), 1234.5);
  EXPECT_EQ(NumberIn("-3/4"), -0.75);
  EXPECT_EQ(NumberIn("\\frac{1}{2}"), 0.5);
  EXPECT_EQ(NumberIn("-\\frac{1}{2}"), -0.5);
  EXPECT_EQ(NumberIn("50 %"), 0.5);
  EXPECT_EQ(NumberIn("$12$"), 12);
  for (const char* none : {"", "Friday", "1/0", "x", "1 apple", "\\frac{1}"})
    EXPECT_EQ(NumberIn(none), std::nullopt) << none;
}

TEST(IsSameAnswerTest, ComparesWordsAndNumbers) {
  EXPECT_TRUE(IsSameAnswer("Friday.", "friday"));
  EXPECT_TRUE(IsSameAnswer("0.5", "1/2"));
  EXPECT_TRUE(IsSameAnswer("The answer is 42.", "42"));
  EXPECT_TRUE(IsSameAnswer("  two   words", "Two words!"));
  EXPECT_FALSE(IsSameAnswer("Friday", "Sunday"));
  EXPECT_FALSE(IsSameAnswer("41", "42"));
  EXPECT_FALSE(IsSameAnswer("", "42"));
  EXPECT_FALSE(IsSameAnswer("The answer is 42 or 43.", "42"));
}

}  // namespace
}  // namespace trireme
