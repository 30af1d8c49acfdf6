// Attention with soft-capped scores, cap · tanh(score / cap), under a window: by the loops and by the reference,
// forward and backward, against the plain formula in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/attention/packed_attention.h"
#include "ops/attention/windowed_tiles.h"

namespace trireme {
namespace {

constexpr int64_t kLength = 50, kGroup = 3, kDim = 8, kWindow = 20;
constexpr double kScale = 0.7, kCap = 1.5;

Heads Random(at::ScalarType type) {
  at::manual_seed(5);
  return {at::randn({1, 2, kLength, kGroup, kDim}).to(type), at::randn({1, 2, kLength, kDim}).to(type),
          at::randn({1, 2, kLength, kDim}).to(type)};
}

at::Tensor Plain(const Heads& heads) {
  const at::Tensor query = heads.query.flatten(2, 3)[0], key = heads.key[0], value = heads.value[0];
  const at::Tensor scores = at::tanh(at::bmm(query, key.transpose(1, 2)) * kScale / kCap) * kCap;
  const at::Tensor last = at::arange(kLength).repeat_interleave(kGroup).unsqueeze(1),
                   keys = at::arange(kLength).unsqueeze(0);
  const at::Tensor masked = (keys > last).logical_or(keys <= last - kWindow);
  const at::Tensor p = at::softmax(scores.masked_fill(masked, -std::numeric_limits<double>::infinity()), -1);
  return at::bmm(p, value).view({1, 2, kLength, kGroup, kDim});
}

double Error(const at::Tensor& found, const at::Tensor& wanted) {
  return ((found.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
}

void ExpectPlain(at::ScalarType type, double tolerance) {
  const Heads heads = Random(type);
  Heads exact{heads.query.to(at::kDouble), heads.key.to(at::kDouble), heads.value.to(at::kDouble)};
  for (at::Tensor* x : {&exact.query, &exact.key, &exact.value}) x->requires_grad_(true);
  const at::Tensor wanted = Plain(exact), gradient = at::randn(wanted.sizes()).to(type);
  wanted.backward(gradient.to(at::kDouble));
  const RowTiles whole = {{{.query = 0, .queries = kLength, .key = 0, .keys = kLength, .first = 0}}};
  const RowTiles tiles = Capped(Windowed(whole, kWindow), kCap);
  const PartialAttention found = AttendPacked(heads, kScale, tiles);
  EXPECT_LT(Error(found.output, wanted.detach()), tolerance);
  const Heads sums = AttendPackedBackward(heads, kScale, tiles, {found.log_sum_exp, gradient, found.output.to(type)});
  EXPECT_LT(Error(sums.query, exact.query.grad()), 2 * tolerance);
  EXPECT_LT(Error(sums.key, exact.key.grad()), 2 * tolerance);
  EXPECT_LT(Error(sums.value, exact.value.grad()), 2 * tolerance);
}

TEST(SoftCap, ByLoops) {
  ExpectPlain(at::kFloat, 1e-6);
  ExpectPlain(at::kBFloat16, 1e-2);
}

TEST(SoftCap, ByTheReference) {
  const ReferenceOnly reference;
  ExpectPlain(at::kFloat, 1e-6);
}

}  // namespace
}  // namespace trireme
