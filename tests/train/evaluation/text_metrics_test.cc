// Rankings, labels and numbers against values worked out by hand.
#include "train/evaluation/text_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(RankingMetrics, OfQueriesOneByOne) {
  RankingMetrics metrics;
  EXPECT_TRUE(metrics.Take().empty());
  metrics.Add({.scores = {0.9, 0.8, 0.7}, .labels = {0, 1, 0}});  // the second place
  metrics.Add({.scores = {3, 1, 2}, .labels = {1, 0, 1}});        // both in front
  metrics.Add({.scores = {1, 2}, .labels = {0, 0}});              // nothing to find
  const auto found = metrics.Take();
  EXPECT_NEAR(found.at("mrr@10"), (0.5 + 1) / 2, 1e-12);
  EXPECT_NEAR(found.at("recall@1"), (0 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(found.at("recall@10"), 1, 1e-12);
  EXPECT_NEAR(found.at("ndcg@10"), (1 / std::log2(3.0) + 1) / 2, 1e-12);
}

TEST(RankingMetrics, GradedLabelsAreGains) {
  RankingMetrics metrics;
  metrics.Add({.scores = {1, 2, 3}, .labels = {3, 1, 0}});
  const double gain = 1 / std::log2(3.0) + 3 / std::log2(4.0), ideal = 3 + 1 / std::log2(3.0);
  EXPECT_NEAR(metrics.Take().at("ndcg@10"), gain / ideal, 1e-12);
}

TEST(RankingMetrics, EqualScoresDoNotHelp) {
  RankingMetrics metrics;
  metrics.Add({.scores = {1, 1}, .labels = {1, 0}});
  EXPECT_EQ(metrics.Take().at("recall@1"), 0);
}

TEST(RankingMetrics, TheEleventhPlaceIsTooLate) {
  RankedQuery query;
  for (int i = 0; i < 12; ++i) {
    query.scores.push_back(-i);
    query.labels.push_back(i == 10 ? 1 : 0);
  }
  RankingMetrics metrics;
  metrics.Add(query);
  for (const auto& [name, value] : metrics.Take()) EXPECT_EQ(value, 0) << name;
}

TEST(LabelMetrics, F1IsTheMeanOverLabels) {
  LabelMetrics metrics(4);
  metrics.Add({true, false, false, false}, {true, false, false, false});
  metrics.Add({true, false, false, false}, {false, true, false, false});
  metrics.Add({false, true, false, false}, {false, true, false, false});
  metrics.Add({false, false, true, false}, {true, false, false, false});
  const auto found = metrics.Take();
  EXPECT_EQ(found.at("accuracy"), 0.5);
  // 2 · 1 / (2 + 2), 2 · 1 / (2 + 1), 0; the fourth label is nowhere.
  EXPECT_NEAR(found.at("f1"), (0.5 + 2.0 / 3 + 0) / 3, 1e-12);
}

TEST(NumberMetrics, ErrorAndCorrelation) {
  const std::vector<double> predicted = {1, 2, 3}, wanted = {2, 4, 6}, same = {5, 5, 5};
  EXPECT_NEAR(NumberMetrics(predicted, wanted).at("mse"), (1 + 4 + 9) / 3.0, 1e-12);
  EXPECT_NEAR(NumberMetrics(predicted, wanted).at("pearson"), 1, 1e-12);
  EXPECT_FALSE(NumberMetrics(predicted, same).contains("pearson")) << "nothing varies";
  EXPECT_TRUE(NumberMetrics({}, {}).empty());
}

}  // namespace
}  // namespace trireme
