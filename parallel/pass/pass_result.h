// PassResult: the results of a run over micro batches, on the head's ranks: named sums, and per micro
// batch what was requested. Sums stay on the device until ReduceSums, so that nothing waits for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace trireme {

struct PassOutput {                        // of one micro batch, on the head's ranks; undefined if not requested
  std::map<std::string, at::Tensor> sums;  // scalars, fp32
  at::Tensor log_probs;                    // [rows · length] fp32 of each label; 0 where none is trained
  at::Tensor entropies;                    // [rows · length] fp32 likewise
  at::Tensor sequence_log_probs;           // [documents] fp32, over all context ranks; those of answers weighted
  at::Tensor hidden;                       // [rows · length, hidden] after the last norm
  at::Tensor trained_hidden;               // [trained, hidden] the same of tokens whose labels are trained
  at::Tensor head_weight;                  // [vocabulary / tp, hidden] what makes logits of them
  double soft_cap = 0;                     // of these logits; 0: none
  at::Tensor logits;                       // [wanted tokens, vocabulary]
  at::Tensor scores;                       // [rows · length] fp32, a value head's
  at::Tensor sequence_scores;              // [documents] fp32 at their last tokens, the same on all context ranks

  void Add(const std::string& name, const at::Tensor& value);
};

// Sums by name, over all ranks.
using NamedSums = std::map<std::string, double>;

struct PassResult {
  std::vector<PassOutput> outputs;  // by micro batch

  // The sums of `names`, over all micro batches and ranks of `world`, in one reduction; the same everywhere.
  // Only ranks with `speaks` contribute, since tensor-parallel ranks have the same sums. `extra` is summed
  // in the same reduction. Collective.
  NamedSums ReduceSums(const std::vector<std::string>& names, bool speaks, const NamedSums& extra, Communicator& world,
                       at::Device device) const;
};

}  // namespace trireme
