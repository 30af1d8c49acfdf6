// The words at the end name what can be typed next, as a shell takes it.
#include "train/report/summary.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

Config ConfigOf(TuningKind kind) {
  Config config;
  config.mutable_tuning()->set_kind(kind);
  config.mutable_model()->set_path("models/base");
  config.mutable_run()->set_output("my runs/a");
  return config;
}

const LogCurves kCurves = {.train = {{1, 4.0}, {20, 2.0}}, .eval = {{10, 2.5}, {20, 2.75}}};

TEST(Summary, FullTuningLeavesAModel) {
  EXPECT_EQ(
      EndSummary(ConfigOf(TUNING_FULL), {.step = 20, .total_steps = 20, .seconds = 65}, kCurves, "trireme"),
      "done: step 20 of 20, 1:05\n"
      "  loss 4.0000 at step 1, 2.0000 at step 20\n"
      "  eval loss 2.7500 at step 20, lowest 2.5000 at step 10\n"
      "  my runs/a/final: the model, as Hugging Face reads it; my runs/a/loss.svg: its curve\n"
      "next:\n"
      "  trireme generate --model 'my runs/a/final' --prompt 'Hello'\n"
      "  tensorboard --logdir 'my runs/a/events'\n");
}

TEST(Summary, LoraLeavesAnAdapterToMerge) {
  const std::string text = EndSummary(ConfigOf(TUNING_LORA), {.step = 20, .total_steps = 20}, {}, "trireme");
  EXPECT_NE(text.find("trireme generate --model models/base --adapters 'my runs/a/final' --prompt"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("trireme merge --model models/base --adapters 'my runs/a/final' --to 'my runs/a/merged'\n"),
      std::string::npos)
      << text;
}

TEST(Summary, AStopSaysHowToGoOn) {
  EXPECT_EQ(
      EndSummary(ConfigOf(TUNING_FULL), {.step = 7, .total_steps = 20, .seconds = 3}, kCurves, "trireme"),
      "stopped at step 7 of 20 after 0:03; saved as my runs/a/checkpoint-7\n"
      "  the same command goes on from there\n");
}

}  // namespace
}  // namespace trireme
