// WideProblem: the log-probabilities of a HeadProblem by log_softmax and gather in fp64, to compare an objective's
// value and gradients with.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "tests/parallel/objectives/head_problem.h"

namespace trireme {

struct WideProblem {
  at::Tensor hidden, weight, trained, log_probs;

  explicit WideProblem(const HeadProblem& p)
      : hidden(p.hidden.to(at::kDouble).requires_grad_()),
        weight(p.whole.to(at::kDouble).requires_grad_()),
        trained(p.input.labels.ne(kNotTrained).nonzero().squeeze(1)) {
    const at::Tensor logits = hidden.mm(weight.narrow(0, 0, p.vocabulary).t());
    const at::Tensor labels = p.input.labels.index_select(0, trained).unsqueeze(1);
    log_probs = logits.log_softmax(1).index_select(0, trained).gather(1, labels).squeeze(1);
  }

  void ExpectGradients(const at::Tensor& loss, const HeadRun& run, const HeadProblem& p, double tolerance,
                       const std::string& context) const {
    torch::autograd::backward({loss}, {at::ones_like(loss)});
    EXPECT_LT(RelativeError(run.output.sums.at("loss"), loss.detach()), tolerance) << context;
    EXPECT_LT(RelativeError(run.hidden_gradient, hidden.grad()), tolerance) << context;
    EXPECT_LT(RelativeError(run.weight_gradient, weight.grad().narrow(0, p.first(), p.shard_rows)), tolerance)
        << context;
  }
};

}  // namespace trireme
