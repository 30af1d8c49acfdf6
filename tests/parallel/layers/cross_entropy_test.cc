// Cross-entropy over shards of the vocabulary against the whole one in fp64: loss, gradients of the hidden
// states (summed over the ranks) and of this rank's weight; padding, untrained tokens, chunks of any size.
#include "parallel/layers/cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/base/error.h"
#include "parallel/graph/specs.h"
#include "parallel/tensor/collectives.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kVocabulary = 50, kSize = 12, kTokens = 23;

double RelativeError(const at::Tensor& found, const at::Tensor& wanted) {
  return (found.to(at::kDouble) - wanted).norm().item<double>() / (wanted.norm().item<double>() + 1e-30);
}

struct Problem {
  at::Tensor hidden;  // [tokens, size]
  at::Tensor labels;  // [tokens]
  at::Tensor whole;   // [padded vocabulary, size]; its padding is loud, to be heard if it counted
  int64_t shard_rows;
};

Problem MakeProblem(at::ScalarType type) {
  at::manual_seed(3);  // the same on every rank
  const int64_t ranks = World().size(), shard_rows = (kVocabulary + ranks - 1) / ranks + 2;
  Problem p{at::randn({kTokens, kSize}).to(type), at::randint(kVocabulary, {kTokens}, at::kLong),
            at::randn({shard_rows * ranks, kSize}).to(type), shard_rows};
  p.whole.narrow(0, kVocabulary, p.whole.size(0) - kVocabulary).fill_(9);
  for (const int64_t untrained : {0, 7, 22}) p.labels[untrained] = kNotTrained;
  return p;
}

void Check(at::ScalarType type, int64_t chunk_bytes) {
  const std::string context = Concat(type == at::kFloat ? "fp32" : "bf16", ", chunks of ", chunk_bytes);
  const double tolerance = type == at::kFloat ? 1e-5 : 1e-2, scale = 0.25;
  const Problem p = MakeProblem(type);
  const at::Tensor wide = p.hidden.to(at::kDouble).requires_grad_();
  const at::Tensor wide_weight = p.whole.to(at::kDouble).requires_grad_();
  const at::Tensor logits = wide.mm(wide_weight.narrow(0, 0, kVocabulary).t());
  const at::Tensor wanted =
      at::nll_loss(logits.log_softmax(1), p.labels, {}, at::Reduction::Sum, kNotTrained) * scale;
  torch::autograd::backward({wanted}, {at::ones_like(wanted)});

  const int64_t begin = World().rank() * p.shard_rows;
  const Weight weight{"logits", p.whole.narrow(0, begin, p.shard_rows).contiguous(),
                      at::ones({p.shard_rows, kSize})};
  const at::Tensor hidden = p.hidden.clone().requires_grad_();
  const at::Tensor loss =
      ShardedCrossEntropy(hidden, p.labels, weight, World(),
                          {.vocabulary = kVocabulary, .scale = scale, .chunk_bytes = chunk_bytes});
  torch::autograd::backward({loss}, {at::ones_like(loss)});
  at::Tensor gradient = hidden.grad().to(at::kFloat).contiguous();
  AllReduce(gradient, World());
  EXPECT_LT(RelativeError(loss.detach(), wanted.detach()), tolerance) << context;
  EXPECT_LT(RelativeError(gradient, wide.grad()), tolerance) << context;
  // The sum was 1 before, and padding gets nothing.
  EXPECT_LT(RelativeError(weight.gradient - 1, wide_weight.grad().narrow(0, begin, p.shard_rows)), tolerance)
      << context;
}

TEST(ShardedCrossEntropy, IsTheWholeOne) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t chunk_bytes : {1, 700, 1 << 20}) Check(type, chunk_bytes);
  }
}

TEST(ShardedCrossEntropy, NothingTrained) {
  const Problem p = MakeProblem(at::kFloat);
  const Weight weight{"logits", p.whole.narrow(0, 0, p.shard_rows).contiguous(),
                      at::zeros({p.shard_rows, kSize})};
  const at::Tensor hidden = p.hidden.clone().requires_grad_();
  const at::Tensor loss = ShardedCrossEntropy(hidden, at::full_like(p.labels, kNotTrained), weight, World(),
                                              {.vocabulary = kVocabulary});
  torch::autograd::backward({loss}, {at::ones_like(loss)});
  EXPECT_EQ(loss.item<float>(), 0.0f);
  EXPECT_EQ(hidden.grad().abs().sum().item<float>(), 0.0f);
  EXPECT_EQ(weight.gradient.abs().sum().item<float>(), 0.0f);
}

TEST(ShardedCrossEntropy, WithoutAGradient) {
  const Problem p = MakeProblem(at::kFloat);
  const int64_t begin = World().rank() * p.shard_rows;
  const Weight weight{"logits", p.whole.narrow(0, begin, p.shard_rows).contiguous(),
                      at::zeros({p.shard_rows, kSize})};
  const at::Tensor loss =
      ShardedCrossEntropy(p.hidden, p.labels, weight, World(), {.vocabulary = kVocabulary});
  EXPECT_TRUE(loss.isfinite().item<bool>());
  EXPECT_EQ(weight.gradient.abs().sum().item<float>(), 0.0f);
}

}  // namespace
}  // namespace trireme
