// Metrics of an evaluation in batches against those of all answers at once.
#include "train/step/metric_means.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(MetricMeans, ABatchWithoutAKindOfAnswerSaysNothingAboutIt) {
  MetricMeans means;
  means.Add({{"rewards/chosen", 1.0}, {"kl", 0.5}}, {.all = 4, .chosen = 4, .rejected = 0});
  means.Add({{"rewards/chosen", 6.0}, {"rewards/rejected", -2.0}, {"rewards/margins", 8.0}, {"kl", 1.5}},
            {.all = 4, .chosen = 1, .rejected = 3});
  const MetricValues all = means.Take();
  EXPECT_DOUBLE_EQ(all.at("rewards/chosen"), 2.0);  // (4 · 1 + 6) / 5
  EXPECT_DOUBLE_EQ(all.at("rewards/rejected"), -2.0);
  EXPECT_DOUBLE_EQ(all.at("rewards/margins"), 4.0);
  EXPECT_DOUBLE_EQ(all.at("kl"), 1.0);
}

TEST(MetricMeans, LogitsCountByTokens) {
  MetricMeans means;
  means.Add({{"logits/chosen", 1.0}}, {.all = 1, .chosen = 1, .rejected = 1, .chosen_tokens = 3, .rejected_tokens = 5});
  means.Add({{"logits/chosen", 5.0}}, {.all = 1, .chosen = 1, .rejected = 1, .chosen_tokens = 1, .rejected_tokens = 5});
  EXPECT_DOUBLE_EQ(means.Take().at("logits/chosen"), 2.0);
}

TEST(MetricMeans, PairsCountAlike) {
  MetricMeans means;
  means.Add({{"rewards/accuracies", 1.0}, {"logps/rejected", -4.0}}, {.all = 1, .chosen = 1, .rejected = 1});
  means.Add({{"rewards/accuracies", 0.0}, {"logps/rejected", -8.0}}, {.all = 3, .chosen = 3, .rejected = 3});
  EXPECT_DOUBLE_EQ(means.Take().at("rewards/accuracies"), 0.25);
  EXPECT_DOUBLE_EQ(means.Take().at("logps/rejected"), -7.0);
}

TEST(MetricMeans, TheLowestAndTheHighestScoreAreNoMeans) {
  MetricMeans means;
  means.Add({{"min_reward", -1.0}, {"max_reward", 2.0}, {"margin", 1.0}}, {.all = 1, .chosen = 1, .rejected = 1});
  means.Add({{"min_reward", -3.0}, {"max_reward", 1.0}, {"margin", 5.0}}, {.all = 3, .chosen = 3, .rejected = 3});
  EXPECT_DOUBLE_EQ(means.Take().at("min_reward"), -3.0);
  EXPECT_DOUBLE_EQ(means.Take().at("max_reward"), 2.0);
  EXPECT_DOUBLE_EQ(means.Take().at("margin"), 4.0);
}

}  // namespace
}  // namespace trireme
