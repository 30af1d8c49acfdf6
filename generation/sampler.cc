#include "generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "ops/cpu/simd.h"

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

// e^((logit - largest) · factor) of each.
TRIREME_CLONES void Exponentials(const float* logits, size_t count, float largest, float factor, float* weights) {
  for (size_t i = 0; i < count; ++i) weights[i] = cpu::ExpUpTo88((logits[i] - largest) * factor);
}

std::vector<float> WeightsOf(std::span<const float> logits, float largest, double temperature) {
  std::vector<float> weights(logits.size());
  Exponentials(logits.data(), logits.size(), largest, static_cast<float>(1 / temperature), weights.data());
  return weights;
}

constexpr size_t kLanes = 16;

TRIREME_CLONES double SumOf(const float* values, size_t count) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] += values[i + k];
  }
  for (; i < count; ++i) lanes[0] += values[i];
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

// The sum of e^((logit - largest) · factor), which nobody needs one by one.
TRIREME_CLONES double SumOfExponentials(const float* logits, size_t count, float largest, float factor) {
  constexpr size_t kInFp32 = 16;  // that a lane sums before it is widened
  double sum = 0;
  for (size_t begin = 0; begin < count;) {
    float lanes[kLanes] = {};
    const size_t end = std::min(count, begin + kLanes * kInFp32);
    for (; begin + kLanes <= end; begin += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) lanes[k] += cpu::ExpUpTo88((logits[begin + k] - largest) * factor);
    }
    for (; begin < end; ++begin) lanes[0] += cpu::ExpUpTo88((logits[begin] - largest) * factor);
    for (const float lane : lanes) sum += lane;
  }
  return sum;
}

// The token at which probabilities, in the order of ids, add up to more than `reach` of all. One of probability 0 is
// never it.
int64_t DrawOfAll(std::span<const float> logits, double temperature, double reach) {
  constexpr size_t kBlock = 256;  // tokens that are summed before any is looked at
  const std::vector<float> weights = WeightsOf(logits, logits[static_cast<size_t>(Likeliest(logits))], temperature);
  std::vector<double> sums;
  for (size_t i = 0; i < weights.size(); i += kBlock)
    sums.push_back(SumOf(&weights[i], std::min(kBlock, weights.size() - i)));
  double left = reach * std::accumulate(sums.begin(), sums.end(), 0.0);
  size_t block = 0;  // the last with a probability that is needed
  for (size_t next = 0; next < sums.size(); ++next) {
    if (sums[next] == 0) continue;
    block = next;
    if (left < sums[next]) break;
    left -= sums[next];
  }
  size_t drawn = block * kBlock;  // where logits are NaN: the first
  const size_t end = std::min(drawn + kBlock, weights.size());
  for (size_t i = drawn; i < end; ++i) {
    if (!(weights[i] > 0)) continue;
    drawn = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return static_cast<int64_t>(drawn);
}

// Tokens by how far their logit is below the largest, so that only likely ones have to be put in order.
class Buckets {
 public:
  Buckets(std::span<const float> logits, double temperature)
      : logits_(logits),
        largest_(logits[static_cast<size_t>(Likeliest(logits))]),
        scale_(static_cast<float>(kPerUnit / temperature)),
        weights_(WeightsOf(logits, largest_, temperature)) {
    for (size_t i = 0; i < logits.size(); ++i) sums_[BucketOf(i)] += weights_[i];
  }

  // Of all weights; the likeliest token's is 1.
  double sum() const { return std::accumulate(sums_.begin(), sums_.end(), 0.0); }

  // The likeliest tokens that have at least this share of the probability, in order; a few more may follow.
  std::vector<int64_t> Likely(double share) const {
    constexpr double kRounding = 1e-6;
    double left = (share + kRounding) * sum();
    size_t end = 0;
    while (end < kBuckets && left > 0) left -= sums_[end++];
    return TokensBefore(end);
  }

 private:
  static constexpr size_t kBuckets = 2048,
                          kPerUnit = 64;  // the last one has all that is less likely than e^-32 of the likeliest

  size_t BucketOf(size_t token) const {
    const float below = (largest_ - logits_[token]) * scale_;
    return below < kBuckets - 1 ? static_cast<size_t>(below) : kBuckets - 1;
  }

  // Those of buckets before `end` with a probability: the likeliest first, on ties the lower id.
  std::vector<int64_t> TokensBefore(size_t end) const {
    std::vector<int64_t> tokens;
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (BucketOf(i) < end && weights_[i] > 0) tokens.push_back(static_cast<int64_t>(i));
    }
    std::ranges::stable_sort(tokens, [&](int64_t a, int64_t b) { return logits_[a] > logits_[b]; });
    return tokens;
  }

  const std::span<const float> logits_;
  const float largest_, scale_;
  const std::vector<float> weights_;
  std::vector<double> sums_ = std::vector<double>(kBuckets, 0.0);
};

std::vector<int64_t> LikeliestFirst(std::span<const float> logits, int64_t top_k) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto likelier = [&](int64_t a, int64_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
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

// The likeliest tokens in order, with their probability among all, or among the first top_k. With top_p alone those
// after it may be missing: putting a whole vocabulary in order takes longer than many a model's step.
std::vector<Candidate> InOrder(std::span<const float> logits, const Sampling& sampling) {
  std::vector<Candidate> candidates;
  if (sampling.top_k <= 0 && sampling.top_p < 1) {
    const Buckets buckets(logits, sampling.temperature);
    const std::vector<int64_t> likely = buckets.Likely(sampling.top_p);
    const double sum = buckets.sum();
    for (const int64_t token : likely) {
      candidates.push_back(
          {token, std::exp((double{logits[token]} - logits[likely.front()]) / sampling.temperature) / sum});
    }
    if (!candidates.empty()) return candidates;  // none where logits are NaN
  }
  const std::vector<int64_t> order = LikeliestFirst(logits, sampling.top_k);
  const double largest = logits[order.front()];
  for (const int64_t token : order) {
    candidates.push_back({token, std::exp((logits[token] - largest) / sampling.temperature)});
  }
  Scale(candidates);
  return candidates;
}

}  // namespace

bool Sampling::adjusts() const {
  return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1 || !bias.empty() || min_tokens > 0;
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
    logits[static_cast<size_t>(token)] -=
        static_cast<float>(sampling.presence_penalty + sampling.frequency_penalty * static_cast<double>(count));
  }
  for (const auto& [token, bias] : sampling.bias) logits[static_cast<size_t>(token)] += static_cast<float>(bias);
  if (std::ssize(generated) >= sampling.min_tokens) return;
  for (const int64_t token : sampling.ends) {
    logits[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
}

std::vector<Candidate> Candidates(std::span<const float> logits, const Sampling& sampling) {
  std::vector<Candidate> candidates = InOrder(logits, sampling);
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
  if (all) return DrawOfAll(logits, sampling.temperature, left);
  const std::vector<Candidate> candidates = Candidates(logits, sampling);
  for (const Candidate& candidate : candidates) {
    left -= candidate.probability;
    if (left < 0) return candidate.token;
  }
  return candidates.back().token;
}

std::vector<TokenLogProb> LogProbs(std::span<const float> logits, int64_t token, int64_t top, double temperature) {
  const float largest = logits[static_cast<size_t>(Likeliest(logits))];
  const double log_sum =
      std::log(SumOfExponentials(logits.data(), logits.size(), largest, static_cast<float>(1 / temperature)));
  const auto of = [&](int64_t id) {
    return TokenLogProb{
        id, static_cast<float>((double{logits[static_cast<size_t>(id)]} - largest) / temperature - log_sum)};
  };
  std::vector<TokenLogProb> found = {of(token)};
  if (top == 0) return found;
  for (const int64_t id : LikeliestFirst(logits, top)) found.push_back(of(id));
  return found;
}

}  // namespace trireme
