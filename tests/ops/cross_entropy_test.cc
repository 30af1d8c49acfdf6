// The two passes of cross-entropy against log_softmax in fp64, with the vocabulary whole and sharded, with
// padding, in fp32 and bf16, fast and by the reference.
#include "ops/cross_entropy/cross_entropy.h"

#include "tests/ops/compare.h"

namespace trireme {
namespace {

struct Case {
  int64_t tokens, stride;
  LogitColumns columns;
};

at::Tensor Labels(int64_t tokens, int64_t vocabulary) { return at::randint(vocabulary, {tokens}, at::kLong); }

void CompareStatistics(const Case& c, at::ScalarType type, const std::string& context) {
  const at::Tensor logits = Random({c.tokens, c.stride}, type) * 10;
  const at::Tensor labels = Labels(c.tokens, 2 * c.stride);  // about half of them on other shards
  const LogitStatistics found = StatisticsOfLogits(logits, labels, c.columns);
  const at::Tensor wide = logits.narrow(1, 0, c.columns.count).to(at::kDouble);
  EXPECT_TRUE(found.largest.to(at::kDouble).equal(wide.amax(1))) << context;
  EXPECT_LT(RelativeError(found.sum.log() + found.largest, wide.logsumexp(1)), 1e-6) << context;
  for (int64_t i = 0; i < c.tokens; ++i) {
    const int64_t column = labels[i].item<int64_t>() - c.columns.first;
    const bool held = column >= 0 && column < c.columns.count;
    EXPECT_EQ(found.picked[i].item<double>(), held ? wide[i][column].item<double>() : 0.0) << context << i;
  }
}

void CompareGradient(const Case& c, at::ScalarType type, const std::string& context) {
  const at::Tensor logits = Random({c.tokens, c.stride}, type) * 3, labels = Labels(c.tokens, 2 * c.stride);
  const at::Tensor wide = logits.to(at::kDouble).narrow(1, 0, c.columns.count);
  const at::Tensor log_sum_exp = wide.logsumexp(1) + 0.5;  // other ranks add to it
  at::Tensor wanted = (wide - log_sum_exp.unsqueeze(1)).exp();
  for (int64_t i = 0; i < c.tokens; ++i) {
    const int64_t column = labels[i].item<int64_t>() - c.columns.first;
    if (column >= 0 && column < c.columns.count) wanted[i][column] -= 1;
  }
  LogitsToGradient(logits, labels, c.columns, log_sum_exp.to(at::kFloat), 0.125);
  EXPECT_LT(RelativeError(logits.narrow(1, 0, c.columns.count), wanted * 0.125), Tolerance(type)) << context;
  const at::Tensor padding = logits.narrow(1, c.columns.count, c.stride - c.columns.count);
  EXPECT_TRUE(padding.eq(0).all().item<bool>()) << context;
}

TEST(SoftmaxCrossEntropy, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const Case& c : {Case{5, 12, {0, 12}}, Case{9, 33, {33, 20}}, Case{3, 5000, {0, 4999}},
                          Case{1, 2049, {1000, 2049}}, Case{4, 1, {0, 1}}}) {
      CompareStatistics(c, type, context + Concat(" columns ", c.stride, ' '));
      CompareGradient(c, type, context + Concat(" columns ", c.stride, ' '));
    }
  });
}

TEST(SoftmaxCrossEntropy, AShardOfPaddingAlone) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    const at::Tensor logits = Random({3, 8}, type), labels = Labels(3, 8);
    const LogitStatistics found = StatisticsOfLogits(logits, labels, {.first = 8, .count = 0});
    EXPECT_TRUE(found.largest.isneginf().all().item<bool>()) << context;
    EXPECT_TRUE(found.sum.eq(0).all().item<bool>()) << context;
    EXPECT_TRUE(found.picked.eq(0).all().item<bool>()) << context;
    LogitsToGradient(logits, labels, {.first = 8, .count = 0}, at::ones({3}), 1);
    EXPECT_TRUE(logits.eq(0).all().item<bool>()) << context;
  });
}

TEST(SoftmaxCrossEntropy, NoTokensAndLargeLogits) {
  EXPECT_EQ(StatisticsOfLogits(at::zeros({0, 7}), at::zeros({0}, at::kLong), {0, 7}).sum.numel(), 0);
  LogitsToGradient(at::zeros({0, 7}), at::zeros({0}, at::kLong), {0, 7}, at::zeros({0}), 1);
  const at::Tensor logits = at::tensor({1e4f, -1e4f, 9999.0f}).unsqueeze(0);
  const LogitStatistics found = StatisticsOfLogits(logits, at::zeros({1}, at::kLong), {0, 3});
  EXPECT_NEAR(found.sum.item<double>(), 1 + std::exp(-1.0), 1e-6);
  const at::Tensor broken = at::tensor({1.0f, NAN, 2.0f}).unsqueeze(0);
  EXPECT_TRUE(std::isnan(StatisticsOfLogits(broken, at::zeros({1}, at::kLong), {0, 3}).sum.item<double>()));
}

}  // namespace
}  // namespace trireme
