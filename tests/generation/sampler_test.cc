// Which tokens are candidates, by the rules alone, and that samples follow their probabilities. The
// comparison with transformers' filters is in tests/parity/generate_test.py.
#include "generation/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/base/random.h"

namespace trireme {
namespace {

// Probabilities 0.1, 0.4, 0.2, 0.3 at temperature 1.
const std::vector<float> kLogits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

std::vector<int64_t> TokensOf(const std::vector<Candidate>& candidates) {
  std::vector<int64_t> tokens;
  for (const Candidate& candidate : candidates) tokens.push_back(candidate.token);
  return tokens;
}

TEST(Sampler, IsGreedyAtTemperatureZero) {
  EXPECT_EQ(ChooseToken(kLogits, {}, 0, 0), 1);
  EXPECT_EQ(ChooseToken(std::vector<float>{2, 5, 5, 1}, {}, 0, 0), 1) << "ties go to the first";
}

TEST(Sampler, DrawsFromAllByTheirProbability) {
  const auto candidates = Candidates(kLogits, {.temperature = 1});
  EXPECT_EQ(TokensOf(candidates), (std::vector<int64_t>{1, 3, 2, 0}));
  EXPECT_NEAR(candidates[0].probability, 0.4, 1e-6);
  EXPECT_NEAR(candidates[3].probability, 0.1, 1e-6);
}

TEST(Sampler, FlattensAndSharpensByTheTemperature) {
  const auto sharp = Candidates(kLogits, {.temperature = 0.5});  // squares: 0.16, 0.09, 0.04, 0.01 of 0.30
  EXPECT_NEAR(sharp[0].probability, 0.16 / 0.30, 1e-6);
  EXPECT_NEAR(sharp[2].probability, 0.04 / 0.30, 1e-6);
}

TEST(Sampler, KeepsTheKLikeliest) {
  const auto two = Candidates(kLogits, {.temperature = 1, .top_k = 2});
  EXPECT_EQ(TokensOf(two), (std::vector<int64_t>{1, 3}));
  EXPECT_NEAR(two[0].probability, 0.4 / 0.7, 1e-6);
  EXPECT_EQ(Candidates(kLogits, {.temperature = 1, .top_k = 9}).size(), 4u) << "more than exist";
}

TEST(Sampler, KeepsTheLikeliestThatReachAShare) {
  const auto kept = [](double top_p, int64_t top_k = 0) {
    return TokensOf(Candidates(kLogits, {.temperature = 1, .top_k = top_k, .top_p = top_p}));
  };
  EXPECT_EQ(kept(0.39), (std::vector<int64_t>{1}));
  EXPECT_EQ(kept(0.41), (std::vector<int64_t>{1, 3})) << "the one that crosses the threshold is kept";
  EXPECT_EQ(kept(0.89), (std::vector<int64_t>{1, 3, 2}));
  EXPECT_EQ(kept(1e-9), (std::vector<int64_t>{1})) << "at least one";
  EXPECT_EQ(kept(0.56, 2), (std::vector<int64_t>{1})) << "top-p applies to what top-k left: 0.4 of 0.7";
}

TEST(Sampler, TheTemperatureIsAppliedFirst) {
  // At temperature 0.5 the likeliest alone has 0.533.
  EXPECT_EQ(TokensOf(Candidates(kLogits, {.temperature = 0.5, .top_p = 0.53})), (std::vector<int64_t>{1}));
}

TEST(Sampler, SampleFrequenciesMatchProbabilities) {
  constexpr int kDraws = 20000;
  std::map<int64_t, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[ChooseToken(kLogits, {.temperature = 1, .top_k = 3}, i % 100, i / 100)];
  EXPECT_EQ(counts.size(), 3u);
  for (const auto& [token, share] : std::map<int64_t, double>{{1, 0.4 / 0.9}, {3, 0.3 / 0.9}, {2, 0.2 / 0.9}}) {
    EXPECT_NEAR(counts[token], kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share))) << token;
  }
}

TEST(Sampler, DrawsNothingThatIsForbidden) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> logits(5000, kNever);
  logits[77] = -40.0f;  // far below the likeliest, and drawn by nobody
  logits[4321] = 1.0f;
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(ChooseToken(logits, {.temperature = 1}, 0, i), 4321);
  logits[77] = 1.0f;
  std::set<int64_t> drawn;
  for (int64_t i = 0; i < 100; ++i) drawn.insert(ChooseToken(logits, {.temperature = 1}, 0, i));
  EXPECT_EQ(drawn, (std::set<int64_t>{77, 4321}));
}

std::vector<float> ManyLogits() {
  std::vector<float> logits;
  for (int i = 0; i < 999; ++i) logits.push_back(static_cast<float>((i * 7919) % 1000) / 200.0f);
  return logits;
}

// Without limits nothing is put in order: tokens are drawn as their ids come.
TEST(Sampler, DrawsFromAllInTheOrderOfIds) {
  const std::vector<float> logits = ManyLogits();
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit / 0.7);
  std::set<int64_t> different;
  for (int64_t i = 0; i < 500; ++i) {
    double left = RandomStream(Sampling{}.seed, "tokens of row 3").Uniform(static_cast<uint64_t>(i)) * sum;
    int64_t wanted = -1;
    while (left >= 0) left -= std::exp(logits[static_cast<size_t>(++wanted)] / 0.7);
    EXPECT_EQ(ChooseToken(logits, {.temperature = 0.7}, 3, i), wanted) << i;
    different.insert(wanted);
  }
  EXPECT_GT(different.size(), 100u);
}

TEST(Sampler, PutsOnlyLikelyTokensInOrder) {
  const std::vector<float> logits = ManyLogits();
  for (const double top_p : {0.01, 0.3, 0.9, 0.9999}) {
    const auto some = Candidates(logits, {.temperature = 0.7, .top_p = top_p});
    const auto of_all = Candidates(logits, {.temperature = 0.7, .top_k = 999, .top_p = top_p});
    ASSERT_EQ(TokensOf(some), TokensOf(of_all)) << top_p;
    for (size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(some[i].probability, of_all[i].probability, 1e-6) << i;
  }
}

TEST(Sampler, TakesTheFirstOfTheLikeliest) {
  for (size_t size = 1; size < 40; ++size) {  // the greedy choice, wherever it is
    for (size_t best = 0; best < size; ++best) {
      std::vector<float> flat(size, -3.0f);
      flat[best] = flat[size - 1] = 2.0f;
      EXPECT_EQ(ChooseToken(flat, {}, 0, 0), static_cast<int64_t>(best));
    }
  }
}

TEST(Sampler, DependsOnlyOnRowPositionAndSeed) {
  const auto drawn = [](uint64_t seed, int64_t row) {
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < 50; ++i) tokens.push_back(ChooseToken(kLogits, {.temperature = 1, .seed = seed}, row, i));
    return tokens;
  };
  EXPECT_EQ(drawn(1, 0), drawn(1, 0));
  EXPECT_NE(drawn(1, 0), drawn(2, 0));
  EXPECT_NE(drawn(1, 0), drawn(1, 1));
}

TEST(Sampler, KeepsThoseWithAShareOfTheLargest) {
  EXPECT_EQ(TokensOf(Candidates(kLogits, {.temperature = 1, .min_p = 0.6})), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(TokensOf(Candidates(kLogits, {.temperature = 1, .min_p = 1})), (std::vector<int64_t>{1})) << "at least one";
}

std::vector<float> Adjusted(std::vector<float> logits, const Sampling& sampling, std::vector<int64_t> prompt,
                            std::vector<int64_t> generated) {
  AdjustLogits(logits, sampling, prompt, generated);
  return logits;
}

TEST(Sampler, PenaltiesCountWhatWasGenerated) {
  const std::vector<float> plain = {1, 1, 1, -1};
  EXPECT_EQ(Adjusted(plain, {.presence_penalty = 0.5}, {0}, {1, 1}), (std::vector<float>{1, 0.5, 1, -1}));
  EXPECT_EQ(Adjusted(plain, {.frequency_penalty = 0.25}, {0}, {1, 1, 2}), (std::vector<float>{1, 0.5, 0.75, -1}));
  EXPECT_EQ(Adjusted(plain, {.repetition_penalty = 2}, {0, 0}, {3}), (std::vector<float>{0.5, 1, 1, -2}))
      << "the prompt counts as well, each token once";
  EXPECT_EQ(Adjusted(plain, {.bias = {{2, 3.0}}}, {}, {}), (std::vector<float>{1, 1, 4, -1}));
}

TEST(Sampler, EndsAreKeptBackUntilThereAreEnough) {
  const Sampling sampling{.min_tokens = 2, .ends = {1}};
  std::vector<float> logits = Adjusted(kLogits, sampling, {}, {0});
  EXPECT_EQ(ChooseToken(logits, sampling, 0, 0), 3) << "the next likeliest";
  EXPECT_EQ(Adjusted(kLogits, sampling, {}, {0, 0}), kLogits);
}

TEST(Sampler, LogProbabilitiesAreTheModels) {
  const auto found = LogProbs(kLogits, 2, 2);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].token, 2);
  EXPECT_NEAR(found[0].log_prob, std::log(0.2), 1e-6);
  EXPECT_EQ(found[1].token, 1);
  EXPECT_NEAR(found[1].log_prob, std::log(0.4), 1e-6);
  EXPECT_EQ(found[2].token, 3);
  EXPECT_EQ(LogProbs(kLogits, 2, 0).size(), 1u);
}

// Over a vocabulary that fills no whole number of lanes, of logits far apart.
TEST(Sampler, LogProbabilitiesAtATemperature) {
  const RandomStream random(7, "logits");
  std::vector<float> logits(5003);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(12 * random.Normal(i));
  for (const double temperature : {0.3, 1.0, 1.7}) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit} / temperature);
    for (const int64_t token : {0, 4095, 5002}) {
      const double wanted = logits[static_cast<size_t>(token)] / temperature - std::log(sum);
      EXPECT_NEAR(LogProbs(logits, token, 0, temperature)[0].log_prob / wanted, 1, 1e-6) << temperature;
    }
  }
}

}  // namespace
}  // namespace trireme
