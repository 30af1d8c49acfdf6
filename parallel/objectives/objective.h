// Objective: what is computed from the head's hidden states: a value with its gradient, named sums, outputs.
// Runs on the last stage, on this rank's shard of the vocabulary, in chunks: the logits of a micro batch are
// never in memory all at once. Knows neither the layers before the head nor autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/tensor/weight.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "parallel/pass/pass_context.h"
#include "parallel/pass/pass_result.h"

namespace trireme {

struct ObjectiveOptions;  // objective_options.h

// The head as an objective sees it.
struct HeadStates {
  std::vector<at::Tensor> hidden;  // by prediction depth, [tokens, hidden] after the last norm, all tokens
  const Weight& weight;  // [vocabulary / tp, hidden]; of a value head [numbers, hidden], the same on all ranks
  LogitColumns columns;  // token ids of this rank's rows of the weight
  int64_t vocabulary = 0;
  double mtp_weight = 0;   // of each mtp depth's loss
  double soft_cap = 0;     // a logit x is cap · tanh(x / cap); 0: none
  double logit_scale = 1;  // `hidden` is already multiplied by it
  // Of a value head beside the logits: [1, hidden] and [1], the same on all ranks; nullptr: there is none.
  const Weight* value = nullptr;
  const Weight* value_bias = nullptr;
  Communicator& tensor;   // the ranks that split the vocabulary
  Communicator& context;  // the ranks that split each row's tokens
};

class Objective {
 public:
  virtual ~Objective() = default;

  // Whether it needs a value head's scores in place of logits.
  virtual bool needs_scores() const { return false; }
  // The sums that Run adds to a pass's output, the same on every rank, with or without the head.
  virtual std::vector<std::string> SumNames(int64_t mtp_depths) const = 0;
  // What it keeps from step to step, as it is before the first one; empty: nothing. The object itself never changes:
  // who trains holds the state, gives it to passes (AnswerTotals::state) and saves it with the run's progress.
  virtual std::vector<double> InitialState() const { return {}; }
  // The state that a batch is trained with. mean_log_ratio: of its answers, by the policy against the reference.
  virtual std::vector<double> NextState(const std::vector<double>& state, double /*mean_log_ratio*/,
                                        int64_t /*answers*/) const {
    return state;
  }
  // Indices of the tokens whose hidden states it needs: [any] int64; undefined: all of them.
  virtual at::Tensor Select(const PassContext& /*pass*/) const { return {}; }
  // Adds this micro batch's results to pass.output. If the pass is differentiated, returns the gradient of
  // the value with respect to each of head.hidden, this rank's part of a sum over head.tensor; the weight
  // accumulates its own. Normalised by pass.totals alone. Collective over head.tensor and, for some
  // objectives, over head.context.
  virtual std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const = 0;
};

}  // namespace trireme
