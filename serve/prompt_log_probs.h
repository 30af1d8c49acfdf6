// Log-probabilities of a prompt's tokens in the form of vLLM's prompt_logprobs: for each token an object by token id,
// the token itself and the likeliest ones at its place, each with its rank and text. Decides nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/json.h"
#include "generation/sampler.h"
#include "text/tokenizer.h"

namespace trireme {

// Below it JSON has what it has no number for.
inline constexpr float kLeastLogProb = -9999;

// The token with the first `top` of those that are the likeliest: what one request asked for may be more than another
// part of it shows.
inline std::vector<TokenLogProb> Likeliest(const std::vector<TokenLogProb>& all, int64_t top) {
  const auto count = std::min<int64_t>(std::ssize(all), top + 1);
  return {all.begin(), all.begin() + count};
}

// null for the first token, of which nothing is known; log_probs are of the others, in their order.
Json PromptLogProbs(const std::vector<std::vector<TokenLogProb>>& log_probs, int64_t top, const Tokenizer& tokenizer);

}  // namespace trireme
