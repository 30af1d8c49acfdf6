// Attention sinks against the plain formula in fp64, where the sink is one more column of scores: output, gradients of
// queries, keys, values and of the sinks; in generation from the cache.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/attention/packed_attention.h"
#include "ops/attention/paged_attention.h"
#include "ops/attention/sinks.h"
#include "ops/attention/windowed_tiles.h"

namespace trireme {
namespace {

constexpr int64_t kRows = 2, kKvHeads = 2, kLength = 40, kGroup = 3, kDim = 8, kWindow = 13;
constexpr double kScale = 0.7;

struct Case {
  Heads heads;
  at::Tensor sinks;  // [kv_heads, group]
};

Case RandomCase(at::ScalarType type) {
  at::manual_seed(5);
  return {{at::randn({kRows, kKvHeads, kLength, kGroup, kDim}).to(type),
           at::randn({kRows, kKvHeads, kLength, kDim}).to(type), at::randn({kRows, kKvHeads, kLength, kDim}).to(type)},
          (at::randn({kKvHeads, kGroup}) * 2).to(type)};
}

// The sink is the last column of the scores, and its probability meets no value.
at::Tensor Plain(const Case& c) {
  const at::Tensor query = c.heads.query.flatten(2, 3).flatten(0, 1), key = c.heads.key.flatten(0, 1);
  const at::Tensor last = at::arange(kLength).repeat_interleave(kGroup).unsqueeze(1),
                   keys = at::arange(kLength).unsqueeze(0);
  const at::Tensor masked = (keys > last).logical_or(keys <= last - kWindow);
  const at::Tensor scores =
      (at::bmm(query, key.transpose(1, 2)) * kScale).masked_fill(masked, -std::numeric_limits<double>::infinity());
  const at::Tensor sinks = c.sinks.unsqueeze(1).expand({kKvHeads, kLength, kGroup}).flatten(1).repeat({kRows, 1});
  const at::Tensor p = at::softmax(at::cat({scores, sinks.unsqueeze(-1)}, -1), -1).narrow(-1, 0, kLength);
  return at::bmm(p, c.heads.value.flatten(0, 1)).view(c.heads.query.sizes());
}

double Error(const at::Tensor& found, const at::Tensor& wanted) {
  return ((found.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
}

RowTiles Tiles() {
  const AttentionTile whole{.query = 0, .queries = kLength, .key = 0, .keys = kLength, .first = 0};
  return Windowed(RowTiles(kRows, {whole}), kWindow);
}

void ExpectPlain(at::ScalarType type, double tolerance) {
  const Case c = RandomCase(type);
  Case exact{{c.heads.query.to(at::kDouble), c.heads.key.to(at::kDouble), c.heads.value.to(at::kDouble)},
             c.sinks.to(at::kDouble)};
  for (at::Tensor* x : {&exact.heads.query, &exact.heads.key, &exact.heads.value, &exact.sinks})
    x->requires_grad_(true);
  const at::Tensor wanted = Plain(exact), gradient = at::randn(wanted.sizes()).to(type);
  wanted.backward(gradient.to(at::kDouble));
  const PartialAttention found = AttendPackedWithSums(c.heads, kScale, Tiles());
  ApplySinks(found, c.sinks);
  EXPECT_LT(Error(found.output, wanted.detach()), tolerance);
  const AttendedQueries queries{found.log_sum_exp, gradient, found.output.to(type)};
  EXPECT_LT(Error(SinksGradient(queries, c.sinks), exact.sinks.grad()), 2 * tolerance);
  const Heads sums = AttendPackedWithSumsBackward(c.heads, kScale, Tiles(), queries);
  EXPECT_LT(Error(sums.query, exact.heads.query.grad()), 2 * tolerance);
  EXPECT_LT(Error(sums.key, exact.heads.key.grad()), 2 * tolerance);
  EXPECT_LT(Error(sums.value, exact.heads.value.grad()), 2 * tolerance);
}

TEST(Sinks, ByLoops) {
  ExpectPlain(at::kFloat, 1e-6);
  ExpectPlain(at::kBFloat16, 1e-2);
}

TEST(Sinks, ByTheReference) {
  const ReferenceOnly reference;
  ExpectPlain(at::kFloat, 1e-6);
}

// Padding has attended to nothing: all of its softmax is the sink, and it gives it no gradient.
TEST(Sinks, OfQueriesWithoutKeysAreZeros) {
  const Case c = RandomCase(at::kFloat);
  const PartialAttention empty = EmptyPartial(c.heads.query, kDim);
  ApplySinks(empty, c.sinks);
  EXPECT_EQ(empty.output.abs().max().item<float>(), 0);
  const AttendedQueries queries{empty.log_sum_exp, at::ones_like(empty.output), empty.output};
  EXPECT_EQ(SinksGradient(queries, c.sinks).abs().max().item<float>(), 0);
}

// A row in two steps: a prompt, then its last token.
void ExpectPlainFromCache() {
  const Case c = RandomCase(at::kFloat);
  const at::Tensor wanted =
      Plain({{c.heads.query.to(at::kDouble), c.heads.key.to(at::kDouble), c.heads.value.to(at::kDouble)},
             c.sinks.to(at::kDouble)})[0]
          .transpose(0, 1)
          .flatten(1);
  PagedKeyValues cache;
  PagedScratch scratch;
  const auto step = [&](int64_t past, int64_t fresh) {
    const auto of_row = [&](const at::Tensor& x) { return x.narrow(0, 0, 1).narrow(2, past, fresh).contiguous(); };
    const PagedRows rows{.block_size = 16, .blocks = 3, .rows = {{.past = past, .fresh = fresh, .blocks = {2, 0, 1}}}};
    scratch.Begin();
    return PagedAttention({of_row(c.heads.query), of_row(c.heads.key), of_row(c.heads.value)}, kDim, kScale, rows,
                          cache, scratch, kWindow, 0, c.sinks.flatten());
  };
  const at::Tensor prompt = step(0, kLength - 1), token = step(kLength - 1, 1);
  EXPECT_LT(Error(prompt, wanted.narrow(0, 0, kLength - 1)), 1e-6);
  EXPECT_LT(Error(token, wanted.narrow(0, kLength - 1, 1)), 1e-6);
}

TEST(Sinks, FromTheCache) { ExpectPlainFromCache(); }

TEST(Sinks, FromTheCacheByTheReference) {
  const ReferenceOnly reference;
  ExpectPlainFromCache();
}

}  // namespace
}  // namespace trireme
