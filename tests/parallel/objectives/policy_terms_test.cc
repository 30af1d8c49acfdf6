// Terms of policy losses: derivatives by finite differences, and what their bounds and temperatures hold back.
#include "parallel/objectives/policy_terms.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <vector>

namespace trireme {
namespace {

const std::vector<double> kRatios = {0.5, 0.95, 1.15, 1.6, 2.5, 3.5};  // off every bound
constexpr RatioBounds kBounds{.low = 0.8, .high = 1.2, .most = 3};

at::Tensor Doubles(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

void ExpectSlopeByRatio(const std::function<TermLoss(const at::Tensor& ratios, const at::Tensor& advantages)>& term) {
  constexpr double kStep = 1e-6;
  const at::Tensor ratios = Doubles(kRatios);
  for (const double advantage : {2.0, -0.5}) {
    const at::Tensor advantages = at::full_like(ratios, advantage), found = term(ratios, advantages).by_ratio,
                     wanted = (term(ratios + kStep, advantages).value - term(ratios - kStep, advantages).value) /
                              (2 * kStep);
    EXPECT_LT((found - wanted).abs().max().item<double>(), 1e-6) << advantage << ": " << found << wanted;
  }
}

TEST(PolicyTerms, DerivativesAreThoseOfFiniteDifferences) {
  ExpectSlopeByRatio([](const at::Tensor& r, const at::Tensor& a) { return ClippedTerm(r, a, kBounds); });
  ExpectSlopeByRatio([](const at::Tensor& r, const at::Tensor& a) {
    return ClippedTerm(r, a, {.low = kBounds.low, .high = kBounds.high});
  });
  ExpectSlopeByRatio(
      [](const at::Tensor& r, const at::Tensor& a) { return SapoTerm(r, a, {.positive = 1.5, .negative = 0.75}); });
}

TEST(PolicyTerms, ALossStopsAtTheLargestRatio) {
  const TermLoss loss = ClippedTerm(Doubles({3.5}), Doubles({-1}), kBounds);
  EXPECT_EQ(loss.value.item<double>(), 3);
  EXPECT_EQ(loss.by_ratio.item<double>(), 0);
}

// -4 / t · σ(t · (ratio - 1)) · advantage.
TEST(PolicyTerms, SapoHasATemperatureForGainsAndOneForLosses) {
  const TermLoss loss = SapoTerm(Doubles({1.5, 1.5}), Doubles({1, -1}), {.positive = 2, .negative = 3});
  EXPECT_NEAR(loss.value[0].item<double>(), -4.0 / 2 / (1 + std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(loss.value[1].item<double>(), 4.0 / 3 / (1 + std::exp(-1.5)), 1e-12);
}

TEST(PolicyTerms, CispoWeighsLogProbabilitiesByABoundedRatio) {
  const TermLoss loss = CispoTerm(Doubles({3}), Doubles({2}), Doubles({-0.5}), {.low = 0, .high = 2});
  EXPECT_EQ(loss.value.item<double>(), 2 * 2 * 0.5);
  EXPECT_EQ(loss.by_ratio.item<double>(), 0);
  EXPECT_EQ(loss.by_log_prob.item<double>(), -2 * 2);
}

}  // namespace
}  // namespace trireme
