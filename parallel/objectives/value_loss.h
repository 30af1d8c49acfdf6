// ValueLoss: the loss of values of a completion's states (PPO), whoever gives them, a value model or a head beside a
// policy's logits: half the squared difference between value and return, where a value that moved too far from the old
// one counts as if it had stopped there; mean over all states of the update. Facts of states: ValueFacts.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "parallel/objectives/objective.h"
#include "parallel/objectives/objective_options.h"

namespace trireme {

inline constexpr char kValueClips[] = "val/clipfrac_avg";  // the sum: the fraction of states whose value was clipped

// What makes a value of a hidden state.
struct ValueWeights {
  const Weight& weight;          // [1, hidden]
  const Weight* bias = nullptr;  // [1]; nullptr: there is none
  double scale = 1;              // what hidden states were multiplied by, and values do not know of
};

// That of a value head beside the logits, which the model has.
ValueWeights ValueHeadOf(const HeadStates& head);

// states: [states, hidden] fp32; [states] fp32.
at::Tensor ValuesOf(const at::Tensor& states, const ValueWeights& weights);

class ValueLoss {
 public:
  // sum: the name that it adds the loss under.
  ValueLoss(const ValueLossOptions& options, std::string sum)
      : range_(options.clip_range), weight_(options.weight), sum_(std::move(sum)) {}

  // Adds the micro batch's sums to pass.output. If the pass is differentiated, the gradients of the options' weight
  // times the loss: to the weights, and to `gradient`, that of head.hidden, this rank's part of a sum over head.tensor.
  // The loss: a scalar.
  at::Tensor Add(const HeadStates& head, const ValueWeights& weights, PassContext& pass,
                 const at::Tensor& gradient) const;

 private:
  // The loss, and d loss / d value of each state: [states] fp32.
  struct Differentiated {
    at::Tensor loss, by_value;
  };
  Differentiated Differentiate(const at::Tensor& values, PassContext& pass) const;

  const double range_, weight_;
  const std::string sum_;
};

}  // namespace trireme
