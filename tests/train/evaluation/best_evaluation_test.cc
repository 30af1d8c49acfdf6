// Which evaluation is the best, when a run ends early, and that a checkpoint carries both.
#include "train/evaluation/best_evaluation.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/config/load.h"

namespace trireme {
namespace {

EvalConfig EvalOf(const std::vector<std::string>& overrides) { return ParseConfig("", "run.yaml", overrides).eval(); }

// After how many of the evaluations the run ends; 0: it does not.
int64_t EndsAfter(const EvalConfig& eval, const std::vector<double>& losses, size_t resumed_after = 0) {
  BestEvaluation best(eval, {});
  for (size_t i = 0; i < losses.size(); ++i) {
    best.Take(static_cast<int64_t>(i) + 1, losses[i]);
    if (best.StopsRun()) return static_cast<int64_t>(i) + 1;
    if (i + 1 != resumed_after) continue;
    checkpoint::Progress progress;
    best.AddTo(progress);
    BestEvaluation resumed(eval, progress);
    for (size_t j = i + 1; j < losses.size(); ++j) {
      resumed.Take(static_cast<int64_t>(j) + 1, losses[j]);
      if (resumed.StopsRun()) return static_cast<int64_t>(j) + 1;
    }
    return 0;
  }
  return 0;
}

TEST(BestEvaluation, IsTheFirstOfTheLowest) {
  BestEvaluation best(EvalOf({}), {});
  EXPECT_EQ(best.step(), 0);
  EXPECT_TRUE(best.Take(10, 3.0));
  EXPECT_FALSE(best.Take(20, 3.5));
  EXPECT_TRUE(best.Take(30, 2.0));
  EXPECT_FALSE(best.Take(40, 2.0));
  EXPECT_EQ(best.step(), 30);
  EXPECT_FALSE(best.StopsRun());
}

TEST(BestEvaluation, OneThatIsNotANumberIsNeverTheBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BestEvaluation best(EvalOf({"eval.early_stopping=2"}), {});
  best.Take(1, nan);
  EXPECT_TRUE(best.Take(2, 5.0));
  EXPECT_FALSE(best.Take(3, nan));
  EXPECT_EQ(best.step(), 2);
  best.Take(4, nan);
  EXPECT_TRUE(best.StopsRun());
}

TEST(BestEvaluation, EndsTheRunWhenPatienceDoes) {
  const EvalConfig two = EvalOf({"eval.early_stopping=2"});
  EXPECT_EQ(EndsAfter(two, {3, 2, 2.5, 2.4}), 4);
  EXPECT_EQ(EndsAfter(two, {3, 2, 2.5, 1.9, 2.0}), 0);
  EXPECT_EQ(EndsAfter(two, {3, 2, 2, 2}), 4);  // as low is not lower
  EXPECT_EQ(EndsAfter(EvalOf({}), {1, 2, 3, 4, 5}), 0);
}

TEST(BestEvaluation, AThresholdCountsSmallGainsAsNone) {
  const EvalConfig eval = EvalOf({"eval.early_stopping=2", "eval.early_stopping_threshold=0.5"});
  EXPECT_EQ(EndsAfter(eval, {3, 2.8, 2.6}), 3);  // each lower than the one before, none by more than a half
  EXPECT_EQ(EndsAfter(eval, {3, 2.8, 2.2, 2.1}), 0);
}

TEST(BestEvaluation, ACheckpointCarriesIt) {
  const EvalConfig two = EvalOf({"eval.early_stopping=2"});
  for (const size_t resumed_after : {1, 2, 3}) EXPECT_EQ(EndsAfter(two, {3, 2, 2.5, 2.4}, resumed_after), 4);
}

TEST(BestEvaluation, NeedsEvaluations) {
  const auto refusal = [](const std::vector<std::string>& overrides) -> std::string {
    try {
      CheckBestEvaluation(ParseConfig("", "run.yaml", overrides));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal({"eval.early_stopping=1"}).find("counts evaluations"), std::string::npos);
  EXPECT_NE(refusal({"save.final_from=best"}).find("this run has no evaluations"), std::string::npos);
  EXPECT_EQ(refusal({"eval.early_stopping=1", "save.final_from=best", "eval.every_epoch=true"}), "");
  EXPECT_EQ(refusal({"eval.early_stopping=1", "eval.every=4", "run.epochs=0.25"}), "");
}

}  // namespace
}  // namespace trireme
