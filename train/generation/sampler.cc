#include "train/generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"

namespace trireme {
namespace {

int64_t Likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

std::vector<int64_t> LikeliestFirst(std::span<const float> logits, int64_t top_k) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto likelier = [&](int64_t a, int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const auto all = static_cast<int64_t>(order.size()), count = top_k > 0 ? std::min(top_k, all) : all;
  std::partial_sort(order.begin(), order.begin() + count, order.end(), likelier);
  order.resize(count);
  return order;
}

void Scale(std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.probability;
  for (Candidate& candidate : candidates) candidate.probability /= sum;
}

}  // namespace

std::vector<Candidate> Candidates(std::span<const float> logits, const Sampling& sampling) {
  std::vector<Candidate> candidates;
  const std::vector<int64_t> order = LikeliestFirst(logits, sampling.top_k);
  const double largest = logits[order.front()];
  for (const int64_t token : order) {
    candidates.push_back({token, std::exp((logits[token] - largest) / sampling.temperature)});
  }
  Scale(candidates);
  double reached = 0;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || reached < sampling.top_p)) {
    reached += candidates[kept++].probability;
  }
  if (sampling.top_p < 1) candidates.resize(kept);
  Scale(candidates);
  return candidates;
}

int64_t ChooseToken(std::span<const float> logits, const Sampling& sampling, int64_t row, int64_t position) {
  if (sampling.temperature == 0) return Likeliest(logits);
  const RandomStream random(sampling.seed, Concat("tokens of row ", row));
  double left = random.Uniform(static_cast<uint64_t>(position));
  const std::vector<Candidate> candidates = Candidates(logits, sampling);
  for (const Candidate& candidate : candidates) {
    left -= candidate.probability;
    if (left < 0) return candidate.token;
  }
  return candidates.back().token;
}

}  // namespace trireme
