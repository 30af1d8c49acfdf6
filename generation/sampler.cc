#include "generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace trireme {
namespace {

// The first of the largest. In several chains: one would wait for each comparison.
int64_t Likeliest(std::span<const float> logits) {
  constexpr size_t kChains = 8;
  float largest[kChains];
  std::fill_n(largest, kChains, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kChains <= logits.size(); i += kChains) {
    for (size_t k = 0; k < kChains; ++k) largest[k] = logits[i + k] > largest[k] ? logits[i + k] : largest[k];
  }
  for (; i < logits.size(); ++i) largest[0] = std::max(largest[0], logits[i]);
  const float most = *std::max_element(largest, largest + kChains);
  const auto found = std::find(logits.begin(), logits.end(), most);
  return found == logits.end() ? 0 : found - logits.begin();  // NaN alone equals nothing
}

// The token at which probabilities, the largest first, add up to more than `reach` of all: what walking through
// all candidates in order finds, without putting in order those that are not reached.
int64_t DrawInOrder(std::span<const float> logits, double temperature, double reach) {
  const double largest = logits[static_cast<size_t>(Likeliest(logits))];
  std::vector<std::pair<float, int64_t>> heap;  // of tokens: the likeliest first, on ties the lower id
  heap.reserve(logits.size());
  double sum = 0;
  const auto weight = [&](float logit) { return std::exp((logit - largest) / temperature); };
  for (size_t i = 0; i < logits.size(); ++i) {
    sum += weight(logits[i]);
    heap.emplace_back(logits[i], -static_cast<int64_t>(i));
  }
  std::make_heap(heap.begin(), heap.end());
  double left = reach * sum;
  while (heap.size() > 1) {
    left -= weight(heap.front().first);
    if (left < 0) break;
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
  }
  return -heap.front().second;
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

bool Sampling::adjusts() const {
  return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1 || !bias.empty() ||
         min_tokens > 0;
}

void AdjustLogits(std::span<float> logits, const Sampling& sampling, std::span<const int64_t> prompt,
                  std::span<const int64_t> generated) {
  std::map<int64_t, int64_t> counts;  // of generated tokens
  for (const int64_t token : generated) ++counts[token];
  if (sampling.repetition_penalty != 1) {
    std::set<int64_t> seen(prompt.begin(), prompt.end());
    seen.insert(generated.begin(), generated.end());
    for (const int64_t token : seen) {
      float& logit = logits[static_cast<size_t>(token)];
      const auto penalty = static_cast<float>(sampling.repetition_penalty);
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
  }
  for (const auto& [token, count] : counts) {
    logits[static_cast<size_t>(token)] -= static_cast<float>(
        sampling.presence_penalty + sampling.frequency_penalty * static_cast<double>(count));
  }
  for (const auto& [token, bias] : sampling.bias)
    logits[static_cast<size_t>(token)] += static_cast<float>(bias);
  if (std::ssize(generated) >= sampling.min_tokens) return;
  for (const int64_t token : sampling.ends) {
    logits[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
}

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
  const double least = sampling.min_p * candidates.front().probability;
  while (candidates.size() > 1 && candidates.back().probability < least) candidates.pop_back();
  Scale(candidates);
  return candidates;
}

int64_t ChooseToken(std::span<const float> logits, const Sampling& sampling, int64_t row, int64_t position) {
  if (sampling.temperature == 0) return Likeliest(logits);
  const RandomStream random(sampling.seed, Concat("tokens of row ", row));
  double left = random.Uniform(static_cast<uint64_t>(position));
  const bool all = sampling.top_k <= 0 && sampling.top_p >= 1 && sampling.min_p <= 0;
  if (all) return DrawInOrder(logits, sampling.temperature, left);
  const std::vector<Candidate> candidates = Candidates(logits, sampling);
  for (const Candidate& candidate : candidates) {
    left -= candidate.probability;
    if (left < 0) return candidate.token;
  }
  return candidates.back().token;
}

std::vector<TokenLogProb> LogProbs(std::span<const float> logits, int64_t token, int64_t top) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double log_sum = largest + std::log(sum);
  const auto of = [&](int64_t id) {
    return TokenLogProb{id, static_cast<float>(logits[static_cast<size_t>(id)] - log_sum)};
  };
  std::vector<TokenLogProb> found = {of(token)};
  if (top == 0) return found;
  for (const int64_t id : LikeliestFirst(logits, top)) found.push_back(of(id));
  return found;
}

}  // namespace trireme
