// The next token from a row's logits: the most likely, or one sampled with temperature, top-k and top-p, in
// the order and by the rules of Hugging Face's generate. Numbers only; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct Sampling {
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // only the k most likely; 0: all
  double top_p = 1;        // of those only the most likely that together reach this probability
  uint64_t seed = 42;
};

struct Candidate {
  int64_t token = 0;
  double probability = 0;
};

// The candidates, most likely first (ties: lower id first); their probabilities sum to 1. temperature >
// 0.
std::vector<Candidate> Candidates(std::span<const float> logits, const Sampling& sampling);

// Each row and position has its own random number: the sampled token depends neither on the other rows nor
// on the layout.
int64_t ChooseToken(std::span<const float> logits, const Sampling& sampling, int64_t row, int64_t position);

}  // namespace trireme
