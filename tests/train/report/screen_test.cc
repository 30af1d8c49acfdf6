// What users see: a progress bar that fits the terminal, or plain lines.
#include "train/report/screen.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trireme {
namespace {

LoggedStep StepNumbered(int64_t step) {
  return {.step = step,
          .total_steps = 200,
          .loss = 1.25,
          .grad_norm = 0.5,
          .learning_rate = 1e-4,
          .tokens = 90,
          .tokens_per_second = 1234.4,
          .step_seconds = 0.5,
          .mfu = 0.413,
          .memory_gib = 38.13,
          .epoch = 0.1,
          .elapsed_seconds = 50,
          .steps_here = step};
}

std::string Shown(const ScreenOptions& options, const std::vector<std::pair<LoggedStep, bool>>& steps) {
  std::ostringstream out;
  Screen screen(out, options);
  for (const auto& [step, logged] : steps) screen.Show(step, logged);
  screen.Finish();
  return out.str();
}

TEST(Screen, PlainLinesForLoggedStepsAndEvaluations) {
  LoggedStep evaluated = StepNumbered(100);
  evaluated.evaluation = Evaluation{.loss = 1.5, .token_accuracy = 0.75, .seconds = 2};
  EXPECT_EQ(Shown({}, {{StepNumbered(99), false}, {evaluated, true}}),
            "step 100/200  loss 1.2500  norm 0.500  lr 1.00e-04  1234 tokens/s  0.50 s  mfu 41.3 %  38.13 "
            "GiB  left "
            "0:50\nstep 100/200  eval loss 1.5000  token accuracy 0.7500  2.00 s\n");
}

TEST(Screen, AnEvaluationWithoutALossShowsWhatItIsJudgedBy) {
  LoggedStep first{.step = 0, .total_steps = 200};
  first.evaluation = Evaluation{.seconds = 2, .metrics = {{"best@4", 0.75}, {"reward", 0.5}}, .judged_by = "best@4"};
  EXPECT_EQ(Shown({}, {{first, true}}), "step 0/200  eval best@4 0.7500  reward 0.500  2.00 s\n")
      << "before the first step there is nothing else";
}

TEST(Screen, BarFillsTheRemainingWidth) {
  const std::string numbers = "50/200  loss 1.2500  1234 tokens/s  mfu 41.3 %  38.1 GiB  left 2:30";
  EXPECT_EQ(Shown({.bar = true, .columns = 80}, {{StepNumbered(50), false}}), "\r[==       ] " + numbers + "\x1b[K\n");
  EXPECT_EQ(Shown({.bar = true, .columns = 72}, {{StepNumbered(50), false}}), "\r" + numbers + "\x1b[K\n");
  EXPECT_EQ(Shown({.bar = true, .columns = 30}, {{StepNumbered(50), false}}),
            "\r" + numbers.substr(0, 29) + "\x1b[K\n");
}

TEST(Screen, AnMfuAboveOneIsMarkedUnsure) {
  LoggedStep step = StepNumbered(50);
  step.mfu = 3.9;
  EXPECT_NE(Shown({}, {{step, true}}).find("  mfu unsure (390.0 %)  38.13 GiB"), std::string::npos);
  EXPECT_NE(Shown({.bar = true, .columns = 200}, {{step, true}}).find("  mfu unsure (390.0 %)  38.1 GiB"),
            std::string::npos);
}

TEST(Screen, BarRedrawsAreThrottledExceptAtTheEnd) {
  const std::string shown = Shown({.bar = true, .columns = 200},
                                  {{StepNumbered(1), true}, {StepNumbered(2), true}, {StepNumbered(200), true}});
  EXPECT_EQ(shown.find(" 2/200"), std::string::npos) << shown;
  EXPECT_NE(shown.find(" 200/200"), std::string::npos) << shown;
}

TEST(Screen, EvaluationStaysAboveTheBar) {
  LoggedStep evaluated = StepNumbered(100);
  evaluated.evaluation = Evaluation{.loss = 1.5, .token_accuracy = 0.75, .seconds = 2};
  const std::string shown = Shown({.bar = true, .columns = 200}, {{StepNumbered(1), true}, {evaluated, true}});
  EXPECT_NE(shown.find("\r\x1b[Kstep 100/200  eval loss 1.5000  token accuracy 0.7500  2.00 s\n"), std::string::npos)
      << shown;
}

TEST(Screen, Clock) {
  EXPECT_EQ(ClockText(3), "0:03");
  EXPECT_EQ(ClockText(59.6), "1:00");
  EXPECT_EQ(ClockText(3723), "1:02:03");
  EXPECT_EQ(ClockText(360000), "100:00:00");
}

}  // namespace
}  // namespace trireme
