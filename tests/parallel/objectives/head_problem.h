// A head for tests of objectives: hidden states, labels and a weight whose vocabulary is sharded over the
// job's ranks, the same on all of them, with the whole computation in fp64 for comparison.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "parallel/graph/specs.h"
#include "parallel/objectives/objective.h"
#include "parallel/pass/pass_batch.h"
#include "parallel/tensor/collectives.h"
#include "tests/core/comm/spmd.h"

namespace trireme {

inline double RelativeError(const at::Tensor& found, const at::Tensor& wanted) {
  return (found.to(at::kDouble) - wanted).norm().item<double>() / (wanted.norm().item<double>() + 1e-30);
}

struct HeadProblem {
  int64_t vocabulary = 50, size = 12, tokens = 23;
  at::Tensor hidden;  // [tokens, size]
  at::Tensor whole;   // [padded vocabulary, size]; its padding is large, to show if it is used
  int64_t shard_rows = 0;
  PassInput input;

  explicit HeadProblem(at::ScalarType type) {
    at::manual_seed(3);  // the same on every rank
    const int64_t ranks = World().size();
    shard_rows = (vocabulary + ranks - 1) / ranks + 2;
    hidden = at::randn({tokens, size}).to(type);
    input = {.rows = 1, .length = tokens, .tokens = at::zeros({tokens}, at::kLong)};
    input.labels = at::randint(vocabulary, {tokens}, at::kLong);
    whole = at::randn({shard_rows * ranks, size}).to(type);
    whole.narrow(0, vocabulary, whole.size(0) - vocabulary).fill_(9);
    for (const int64_t untrained : {0, 7, 22}) input.labels[untrained] = kNotTrained;
    input.sequences = 3;  // of 8, 8 and 7 tokens
    input.sequence = at::arange(tokens, at::kLong).floor_divide(8);
  }

  int64_t first() const { return World().rank() * shard_rows; }
  // The gradient of the sum was one before.
  Weight OwnWeight() const {
    return {"logits", whole.narrow(0, first(), shard_rows).contiguous(), at::ones({shard_rows, size})};
  }
  HeadStates StatesOf(const Weight& weight) const {
    return {.hidden = {hidden},
            .weight = weight,
            .columns = {first(), std::clamp<int64_t>(vocabulary - first(), 0, shard_rows)},
            .vocabulary = vocabulary,
            .tensor = World(),
            .context = Alone()};
  }
};

// What an objective returned for the problem.
struct HeadRun {
  PassOutput output;
  at::Tensor hidden_gradient;  // summed over the ranks; undefined if nothing is differentiated
  at::Tensor weight_gradient;  // of this rank's rows
};

inline HeadRun RunObjective(const Objective& objective, const HeadProblem& problem, PassOptions options) {
  options.objective = &objective;
  PassBatch batch({problem.input}, options);
  const Weight weight = problem.OwnWeight();
  const std::vector<at::Tensor> gradients = objective.Run(problem.StatesOf(weight), batch.at(0));
  HeadRun run{.output = batch.result().outputs[0], .weight_gradient = weight.gradient - 1};
  if (!gradients.empty() && gradients[0].defined()) {
    run.hidden_gradient = gradients[0].to(at::kFloat).contiguous();
    AllReduce(run.hidden_gradient, World());
  }
  return run;
}

}  // namespace trireme
