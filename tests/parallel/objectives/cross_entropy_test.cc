// Cross-entropy over vocabulary shards against the unsharded one in fp64: loss, gradients of the hidden
// states (summed over the ranks) and of this rank's weight; padding, untrained tokens, chunks of any size.
#include "parallel/objectives/cross_entropy.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/base/error.h"
#include "tests/parallel/objectives/head_problem.h"

namespace trireme {
namespace {

void Check(at::ScalarType type, int64_t chunk_bytes) {
  const std::string context = Concat(type == at::kFloat ? "fp32" : "bf16", ", chunks of ", chunk_bytes);
  const double tolerance = type == at::kFloat ? 1e-5 : 1e-2;
  const HeadProblem p(type);
  const at::Tensor wide = p.hidden.to(at::kDouble).requires_grad_();
  const at::Tensor wide_weight = p.whole.to(at::kDouble).requires_grad_();
  const at::Tensor logits = wide.mm(wide_weight.narrow(0, 0, p.vocabulary).t());
  const at::Tensor wanted =
      at::nll_loss(logits.log_softmax(1), p.input.labels, {}, at::Reduction::Sum, kNotTrained) / 4;
  torch::autograd::backward({wanted}, {at::ones_like(wanted)});

  const HeadRun run = RunObjective(CrossEntropy({.chunk_bytes = chunk_bytes}), p, {.totals = {.trained = 4}});
  EXPECT_LT(RelativeError(run.output.sums.at("loss"), wanted.detach()), tolerance) << context;
  EXPECT_LT(RelativeError(run.hidden_gradient, wide.grad()), tolerance) << context;
  // Padding gets no gradient.
  EXPECT_LT(RelativeError(run.weight_gradient, wide_weight.grad().narrow(0, p.first(), p.shard_rows)), tolerance)
      << context;
}

TEST(CrossEntropy, EqualsTheUnshardedOne) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t chunk_bytes : {1, 700, 1 << 20}) Check(type, chunk_bytes);
  }
}

// Divided by the number of trained tokens, as without weights.
TEST(CrossEntropy, WeighsEachToken) {
  for (const int64_t chunk_bytes : {1, 1 << 20}) {
    HeadProblem p(at::kFloat);
    p.input.weights = at::rand({p.tokens}) * 3;
    const at::Tensor wide = p.hidden.to(at::kDouble).requires_grad_();
    const at::Tensor wide_weight = p.whole.to(at::kDouble).requires_grad_();
    const at::Tensor log_probs = wide.mm(wide_weight.narrow(0, 0, p.vocabulary).t()).log_softmax(1);
    const at::Tensor losses = at::nll_loss(log_probs, p.input.labels, {}, at::Reduction::None, kNotTrained);
    const at::Tensor wanted = (losses * p.input.weights).sum() / 4;
    torch::autograd::backward({wanted}, {at::ones_like(wanted)});

    const HeadRun run = RunObjective(CrossEntropy({.chunk_bytes = chunk_bytes}), p, {.totals = {.trained = 4}});
    EXPECT_LT(RelativeError(run.output.sums.at("loss"), wanted.detach()), 1e-5);
    EXPECT_LT(RelativeError(run.hidden_gradient, wide.grad()), 1e-5);
    EXPECT_LT(RelativeError(run.weight_gradient, wide_weight.grad().narrow(0, p.first(), p.shard_rows)), 1e-5);
    const HeadRun evaluated =
        RunObjective(CrossEntropy({.chunk_bytes = chunk_bytes}), p, {.differentiate = false, .totals = {.trained = 4}});
    EXPECT_LT(RelativeError(evaluated.output.sums.at("loss"), wanted.detach()), 1e-5);
  }
}

// A token's probability multiplies its loss and has no gradient of its own; the data's weights count beside it.
TEST(CrossEntropy, WeighsEachTokenByItsProbability) {
  for (const int64_t chunk_bytes : {1, 700, 1 << 20}) {
    for (const bool weighted : {false, true}) {
      HeadProblem p(at::kFloat);
      if (weighted) p.input.weights = at::rand({p.tokens}) * 3;
      const at::Tensor wide = p.hidden.to(at::kDouble).requires_grad_();
      const at::Tensor wide_weight = p.whole.to(at::kDouble).requires_grad_();
      const at::Tensor log_probs = wide.mm(wide_weight.narrow(0, 0, p.vocabulary).t()).log_softmax(1);
      at::Tensor losses = at::nll_loss(log_probs, p.input.labels, {}, at::Reduction::None, kNotTrained);
      losses = losses * at::exp(-losses.detach());
      if (weighted) losses = losses * p.input.weights;
      const at::Tensor wanted = losses.sum() / 4;
      torch::autograd::backward({wanted}, {at::ones_like(wanted)});

      const CrossEntropy objective({.chunk_bytes = chunk_bytes, .by_probability = true});
      const HeadRun run = RunObjective(objective, p, {.totals = {.trained = 4}});
      EXPECT_LT(RelativeError(run.output.sums.at("loss"), wanted.detach()), 1e-5);
      EXPECT_LT(RelativeError(run.hidden_gradient, wide.grad()), 1e-5);
      // Added to 1 in fp32, of which the gradient of unlikely tokens is a small part.
      const at::Tensor own = wide_weight.grad().narrow(0, p.first(), p.shard_rows);
      EXPECT_LT((run.weight_gradient - own).abs().max().item<double>(), 3e-6);
    }
  }
}

TEST(CrossEntropy, NothingTrained) {
  HeadProblem p(at::kFloat);
  p.input.labels.fill_(kNotTrained);
  const HeadRun run = RunObjective(CrossEntropy(), p, {});
  EXPECT_EQ(run.output.sums.at("loss").item<float>(), 0.0f);
  EXPECT_EQ(run.hidden_gradient.abs().sum().item<float>(), 0.0f);
  EXPECT_EQ(run.weight_gradient.abs().sum().item<float>(), 0.0f);
}

// A depth's loss is reported as it is; its weight is the gradient's alone.
TEST(CrossEntropy, WeighsFurtherPredictionsInTheGradient) {
  for (const bool weighted : {false, true}) {
    HeadProblem p(at::kFloat);
    if (weighted) p.input.weights = at::rand({p.tokens}) + 0.5;
    PassInput plain = p.input;
    const HeadRun once = RunObjective(CrossEntropy(), p, {.totals = {.trained = 4}});
    p.input.mtp = {plain};
    const CrossEntropy objective;
    PassOptions options{.objective = &objective, .totals = {.trained = 4, .mtp = {{.trained = 4}}}};
    PassBatch batch({p.input}, options);
    const Weight weight = p.OwnWeight();
    HeadStates states = p.StatesOf(weight);
    states.hidden = {p.hidden, p.hidden};
    states.mtp_weight = 0.25;
    std::vector<at::Tensor> gradients = objective.Run(states, batch.at(0));
    const PassOutput& output = batch.result().outputs[0];
    EXPECT_LT(RelativeError(output.sums.at("mtp_loss/1"), once.output.sums.at("loss").to(at::kDouble)), 1e-6);
    at::Tensor further = gradients.at(1).contiguous();
    AllReduce(further, World());
    EXPECT_LT(RelativeError(further, once.hidden_gradient.to(at::kDouble) * 0.25), 1e-6);
    EXPECT_LT(RelativeError(weight.gradient - 1, once.weight_gradient.to(at::kDouble) * 1.25), 1e-5);
  }
}

// Where each token's label is the best of one shard, only those that are the best of all count.
TEST(CrossEntropy, CountsTheLargestOfAllShards) {
  HeadProblem p(at::kFloat);
  const at::Tensor logits = p.hidden.mm(p.whole.narrow(0, 0, p.vocabulary).t());
  for (int64_t token = 0; token < p.tokens; ++token) {
    const int64_t first = token % World().size() * p.shard_rows;
    const int64_t count = std::min(p.shard_rows, p.vocabulary - first);
    p.input.labels[token] = logits[token].narrow(0, first, count).argmax().item<int64_t>() + first;
  }
  const at::Tensor right = logits.argmax(1).eq(p.input.labels).sum();
  const HeadRun run =
      RunObjective(CrossEntropy({.count_correct = true}), p, {.differentiate = false, .totals = {.trained = 1}});
  EXPECT_EQ(run.output.sums.at("correct").item<float>(), right.item<float>());
  if (World().size() > 1) EXPECT_LT(right.item<int64_t>(), p.tokens);
}

TEST(CrossEntropy, CountsPredictionsWithoutAGradient) {
  const HeadProblem p(at::kFloat);
  const at::Tensor logits = p.hidden.mm(p.whole.narrow(0, 0, p.vocabulary).t());
  const at::Tensor right = logits.argmax(1).eq(p.input.labels).sum();
  const HeadRun run =
      RunObjective(CrossEntropy({.count_correct = true}), p, {.differentiate = false, .totals = {.trained = 1}});
  EXPECT_TRUE(run.output.sums.at("loss").isfinite().item<bool>());
  EXPECT_EQ(run.output.sums.at("correct").item<float>(), right.item<float>());
  EXPECT_FALSE(run.hidden_gradient.defined());
  EXPECT_EQ(run.weight_gradient.abs().sum().item<float>(), 0.0f);
}

}  // namespace
}  // namespace trireme
