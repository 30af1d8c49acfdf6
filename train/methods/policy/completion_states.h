// CompletionStates: where the states of completions are among the tokens of micro batches: the state before each token
// of a completion, and the one after its last, is the hidden state of the token before it. Moves numbers between tokens
// of micro batches, which ranks share, and tables of completions, which all of them know.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/pass/pass_input.h"
#include "train/rollouts/gae.h"
#include "train/rollouts/rollout.h"

namespace trireme {

class CompletionStates {
 public:
  // Of micro batches whose answers' values are the numbers of these completions.
  CompletionStates(const std::vector<PassInput>& inputs, std::span<const Rollout> rollouts);

  // Adds numbers of a micro batch's tokens, [rows · length] fp32, to rows of a table, one row for each completion, at
  // the state of the token; states beyond the row are left out.
  void Collect(size_t input, const at::Tensor& by_token, std::span<std::vector<float>> rows) const;
  // The inverse: 0 for tokens without a number. In host memory.
  at::Tensor Spread(size_t input, int64_t tokens, std::span<const std::vector<float>> rows) const;
  // The states of a micro batch that rows have numbers for: the indices of their tokens, int64, and the numbers, fp32,
  // in the same order. In host memory.
  at::Tensor PositionsIn(size_t input, std::span<const std::vector<float>> rows) const;
  at::Tensor NumbersIn(size_t input, std::span<const std::vector<float>> rows) const;

 private:
  struct Place {
    int64_t token;  // of the micro batch, on this rank
    size_t completion, state;
  };
  std::vector<std::vector<Place>> places_;  // by micro batch
};

// A row for each completion with `more` numbers than it has tokens, all 0.
TokenNumbers ZerosFor(std::span<const Rollout> rollouts, size_t more);

}  // namespace trireme
