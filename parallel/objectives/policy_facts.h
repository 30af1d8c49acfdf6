// What policy and value losses know of a micro batch of completions and of its batch.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// Of each token of a completion: [rows · length] fp32, by label; undefined where it is not known. Log-probabilities are
// at the temperature of sampling.
struct PolicyFacts {
  at::Tensor sampled = {};     // by the sampler
  at::Tensor old = {};         // by the policy before the first update with it
  at::Tensor reference = {};   // by the reference
  at::Tensor values = {};      // by the old policy's value head, of the state before the token; undefined: it has none
  at::Tensor advantages = {};  // of each token by itself; undefined: its completion's
};

// Of a completion's states, before each of its tokens and after the last, for value models. Those of them that are on
// this rank; each [states], undefined where nothing is trained on them.
struct ValueFacts {
  at::Tensor positions = {};  // int64: the index of the token whose hidden state it is
  at::Tensor old = {};        // fp32: the value before the first update with the completion
  at::Tensor returns = {};    // fp32: what the value should have been
};

// Of the global batch.
struct PolicyTotals {
  double window_tokens = 0;  // trained labels per update, on average over updates that share completions
  double entropy_bound = 0;  // below it a token's entropy keeps it out of the policy loss
};

}  // namespace trireme
