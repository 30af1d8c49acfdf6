// Beam search with a stand-in for a model: with more beams than there are answers it finds the best of all, and with
// few it does what transformers' rules say, by hand. tests/parity/beams_test.py compares whole searches.
#include "generation/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace trireme {
namespace {

using Tokens = std::vector<int64_t>;
using Model = std::function<std::vector<TokenLogProb>(const Tokens&)>;

Tokens Search(const BeamOptions& options, const Model& model) {
  BeamSearch search(options);
  while (!search.done()) {
    std::vector<std::vector<TokenLogProb>> likeliest;
    for (const auto& hypothesis : search.running()) likeliest.push_back(model(hypothesis.tokens));
    search.Advance(likeliest);
  }
  return search.best();
}

// Three tokens, whose probabilities follow from a digest of those before.
std::vector<TokenLogProb> Next(const Tokens& tokens, uint64_t seed) {
  uint64_t digest = seed * 7919 + 17;
  for (const int64_t token : tokens)
    digest = digest * 6364136223846793005ULL + static_cast<uint64_t>(token) + 1442695040888963407ULL;
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < 3; ++i)
    weights.push_back(1 + static_cast<double>((digest >> (16 * i + 8)) % 97)), sum += weights.back();
  std::vector<TokenLogProb> found;
  for (int i = 0; i < 3; ++i) found.push_back({i, static_cast<float>(std::log(weights[static_cast<size_t>(i)] / sum))});
  return found;
}

// The best of all answers that end with token 0 or have four tokens.
void Exhaust(const Tokens& tokens, double score, uint64_t seed, double penalty, std::pair<double, Tokens>& best) {
  if (!tokens.empty() && (tokens.back() == 0 || tokens.size() == 4)) {
    best = std::max(best, {score / std::pow(static_cast<double>(tokens.size()), penalty), tokens});
    return;
  }
  for (const TokenLogProb& next : Next(tokens, seed)) {
    Tokens longer = tokens;
    longer.push_back(next.token);
    Exhaust(longer, score + next.log_prob, seed, penalty, best);
  }
}

TEST(BeamSearch, ManyBeamsFindTheBestOfAll) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const double penalty : {-1.0, 0.0, 1.0, 2.0}) {
      std::pair<double, Tokens> best = {-1e9, {}};
      Exhaust({}, 0, seed, penalty, best);
      const BeamOptions options{.beams = 100, .length_penalty = penalty, .ends = {0}, .most = 4};
      EXPECT_EQ(Search(options, [&](const Tokens& tokens) { return Next(tokens, seed); }), best.second)
          << seed << " " << penalty;
    }
  }
}

float Log(double p) { return static_cast<float>(std::log(p)); }

// Two beams: an answer of one token is finished at once, a second one is worse, and a longer one would become better
// than both.
TEST(BeamSearch, EndsAsEarlyAsItMay) {
  const Model model = [](const Tokens& tokens) -> std::vector<TokenLogProb> {
    if (tokens.empty()) return {{1, Log(0.52)}, {0, Log(0.4)}, {2, Log(0.06)}, {3, Log(0.02)}};
    if (tokens.size() == 1) return {{0, Log(0.5)}, {1, Log(0.4)}, {2, Log(0.06)}, {3, Log(0.04)}};
    return {{0, Log(0.98)}, {1, Log(0.01)}, {2, Log(0.006)}, {3, Log(0.004)}};
  };
  BeamOptions options{.beams = 2, .ends = {0}, .most = 8};
  EXPECT_EQ(BeamCandidates(options), 4);
  options.early_stopping = EarlyStopping::kFull;
  EXPECT_EQ(Search(options, model), (Tokens{1, 0})) << "sqrt(0.52 · 0.5) > 0.4";
  options.early_stopping = EarlyStopping::kHeuristic;
  EXPECT_EQ(Search(options, model), (Tokens{1, 1, 0})) << "(0.52 · 0.4 · 0.98)^(1/3) is more";
  options.length_penalty = 0;
  EXPECT_EQ(Search(options, model), (Tokens{0})) << "0.4 is the largest probability";
}

// Two beams: the end is the third best first token. It was never a beam, and so is no answer, likelier than all others
// though it is.
TEST(BeamSearch, AnEndBeyondTheBeamsIsNoAnswer) {
  const Model model = [](const Tokens& tokens) -> std::vector<TokenLogProb> {
    if (tokens.empty()) return {{1, Log(0.4)}, {2, Log(0.3)}, {0, Log(0.2)}, {3, Log(0.1)}};
    return {{0, Log(0.4)}, {1, Log(0.3)}, {2, Log(0.2)}, {3, Log(0.1)}};
  };
  const BeamOptions options{.beams = 2, .length_penalty = 0, .ends = {0}, .most = 2};
  EXPECT_EQ(Search(options, model), (Tokens{1, 0})) << "0.4 · 0.4 < 0.2";
}

}  // namespace
}  // namespace trireme
