// The next token from a row's logits: the most likely, or one sampled with temperature, top-k, top-p and
// min-p, in the order and by the rules of Hugging Face's generate, after penalties and biases; and
// log-probabilities of the model's own distribution. Numbers only; no torch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace trireme {

struct Sampling {
  double temperature = 0;               // 0: greedy
  int64_t top_k = 0;                    // only the k most likely; 0: all
  double top_p = 1;                     // of those only the most likely that together reach this probability
  double min_p = 0;                     // of those only the ones with at least this share of the largest probability
  double presence_penalty = 0;          // subtracted from the logit of each token that was generated
  double frequency_penalty = 0;         // subtracted once for each time it was generated
  double repetition_penalty = 1;        // divides positive, multiplies negative logits of tokens of prompt and answer
  std::map<int64_t, double> bias = {};  // added to the logits of these tokens
  int64_t min_tokens = 0;               // before this many, no token of `ends` is sampled
  std::set<int64_t> ends = {};
  uint64_t seed = 42;

  // Whether AdjustLogits changes anything.
  bool adjusts() const;
};

struct Candidate {
  int64_t token = 0;
  double probability = 0;
};

// Penalties, biases and the least number of tokens, for a row with this history.
void AdjustLogits(std::span<float> logits, const Sampling& sampling, std::span<const int64_t> prompt,
                  std::span<const int64_t> generated);

// The candidates, most likely first (ties: lower id first); their probabilities sum to 1. temperature >
// 0.
std::vector<Candidate> Candidates(std::span<const float> logits, const Sampling& sampling);

// Each row and position has its own random number: the sampled token depends neither on the other rows nor
// on the layout.
int64_t ChooseToken(std::span<const float> logits, const Sampling& sampling, int64_t row, int64_t position);

struct TokenLogProb {
  int64_t token = 0;
  float log_prob = 0;
};
// Of the token, and of the `top` most likely ones, likeliest first.
std::vector<TokenLogProb> LogProbs(std::span<const float> logits, int64_t token, int64_t top, double temperature = 1);

}  // namespace trireme
