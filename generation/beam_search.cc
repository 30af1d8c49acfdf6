#include "generation/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

// In fp32, as transformers' tensors.
float Penalised(float score, int64_t tokens, double length_penalty) {
  return score / static_cast<float>(std::pow(static_cast<double>(tokens), length_penalty));
}

}  // namespace

int64_t BeamCandidates(const BeamOptions& options) {
  return std::max<int64_t>(2, 1 + std::ssize(options.ends)) * options.beams;
}

BeamSearch::BeamSearch(BeamOptions options) : options_(std::move(options)) {
  TRIREME_CHECK(options_.beams > 0 && options_.most > 0);
}

// The best of all hypotheses; on ties those of the first one, by lower token ids.
std::vector<BeamSearch::Continuation> BeamSearch::Continuations(
    const std::vector<std::vector<TokenLogProb>>& likeliest) const {
  struct Found {
    float score;
    size_t from;
    int64_t token;
  };
  std::vector<Found> found;
  for (size_t i = 0; i < running_.size(); ++i) {
    for (const TokenLogProb& next : likeliest[i]) found.push_back({running_[i].score + next.log_prob, i, next.token});
  }
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    return a.score != b.score ? a.score > b.score : std::pair(a.from, a.token) < std::pair(b.from, b.token);
  });
  found.resize(std::min(found.size(), static_cast<size_t>(BeamCandidates(options_))));
  std::vector<Continuation> best;
  for (const Found& one : found) {
    Continuation& next = best.emplace_back(Continuation{{running_[one.from].tokens, one.score}});
    next.hypothesis.tokens.push_back(one.token);
    next.ends = options_.ends.contains(one.token) || std::ssize(next.hypothesis.tokens) >= options_.most;
  }
  return best;
}

// Only the best of the continuations, as many as beams, may finish: the others are there in case too few go on.
void BeamSearch::Finish(const std::vector<Continuation>& best) {
  if (!improves_ || (full() && options_.early_stopping == EarlyStopping::kFull)) return;
  for (size_t i = 0; i < best.size() && static_cast<int64_t>(i) < options_.beams; ++i) {
    if (!best[i].ends) continue;
    const Hypothesis& ended = best[i].hypothesis;
    finished_.push_back({ended.tokens, Penalised(ended.score, std::ssize(ended.tokens), options_.length_penalty)});
  }
  std::ranges::stable_sort(finished_, [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  if (std::ssize(finished_) > options_.beams) finished_.resize(static_cast<size_t>(options_.beams));
}

// Whether the best running hypothesis could become better than the worst finished one.
bool BeamSearch::CanImprove() const {
  if (!full()) return true;
  const bool any_length = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
  const int64_t length = any_length ? options_.most : length_;
  return Penalised(running_.front().score, length, options_.length_penalty) > finished_.back().score;
}

void BeamSearch::Advance(const std::vector<std::vector<TokenLogProb>>& likeliest) {
  TRIREME_CHECK(!done_ && likeliest.size() == running_.size());
  const std::vector<Continuation> best = Continuations(likeliest);
  ++length_;
  running_.clear();
  for (const Continuation& one : best) {
    if (!one.ends && std::ssize(running_) < options_.beams) running_.push_back(one.hypothesis);
  }
  Finish(best);
  const bool stops = full() && options_.early_stopping == EarlyStopping::kFull;
  improves_ = improves_ && (running_.empty() || CanImprove());
  done_ = running_.empty() || stops || !improves_;
}

}  // namespace trireme
