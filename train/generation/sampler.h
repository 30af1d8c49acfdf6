// The next token from a row's logits: the likeliest, or one drawn by temperature, top-k and top-p, in the
// order and by the rules of Hugging Face's generate. Numbers only; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct Sampling {
  double temperature = 0;  // 0: always the likeliest token
  int64_t top_k = 0;       // only the k likeliest; 0: all
  double top_p = 1;        // of those only the likeliest that together reach this share
  uint64_t seed = 42;
};

struct Candidate {
  int64_t token = 0;
  double probability = 0;
};

// What is drawn from, likeliest first (of equals the lower id); their probabilities sum to 1. temperature >
// 0.
std::vector<Candidate> Candidates(std::span<const float> logits, const Sampling& sampling);

// A row and a position have a random number of their own: what is drawn depends neither on the other rows nor
// on the layout.
int64_t ChooseToken(std::span<const float> logits, const Sampling& sampling, int64_t row, int64_t position);

}  // namespace trireme
