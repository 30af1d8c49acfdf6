// BeamSearch: the beams of one prompt, by the rules of transformers' generate with num_beams and without sampling:
// which hypotheses are continued, which are finished, and when no better one can come. Log-probabilities come from the
// caller (beam_generator.h). Numbers only; no torch.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "generation/sampler.h"

namespace trireme {

// When a search ends before all hypotheses have all their tokens, once as many as there are beams are finished: at
// once; when the best one that goes on is no better at its length; or when it could not be at any length.
enum class EarlyStopping { kFull, kHeuristic, kNever };

struct BeamOptions {
  int64_t beams = 1;
  double length_penalty = 1;  // a score is the sum of log-probabilities over the number of tokens to this power
  EarlyStopping early_stopping = EarlyStopping::kHeuristic;
  std::set<int64_t> ends = {};
  int64_t most = 256;  // new tokens
};

// How many of its most likely next tokens each hypothesis has to give: though all ends be among them, enough go on.
int64_t BeamCandidates(const BeamOptions& options);

class BeamSearch {
 public:
  explicit BeamSearch(BeamOptions options);

  struct Hypothesis {
    std::vector<int64_t> tokens = {};  // new ones
    float score = 0;                   // sum of their log-probabilities; of a finished one after the length penalty
  };
  // To be continued, best first: at the start one without tokens, then as many as beams.
  const std::vector<Hypothesis>& running() const { return running_; }
  // The most likely next tokens of each of them, BeamCandidates or more.
  void Advance(const std::vector<std::vector<TokenLogProb>>& likeliest);
  bool done() const { return done_; }
  const std::vector<int64_t>& best() const { return finished_.front().tokens; }  // once it is done

 private:
  struct Continuation {
    Hypothesis hypothesis;
    bool ends = false;
  };

  std::vector<Continuation> Continuations(const std::vector<std::vector<TokenLogProb>>& likeliest) const;
  void Finish(const std::vector<Continuation>& best);
  bool CanImprove() const;
  bool full() const { return static_cast<int64_t>(finished_.size()) == options_.beams; }

  const BeamOptions options_;
  std::vector<Hypothesis> running_ = {{}};
  std::vector<Hypothesis> finished_;  // best first, at most as many as beams
  int64_t length_ = 0;                // new tokens of the running ones
  bool improves_ = true, done_ = false;
};

}  // namespace trireme
