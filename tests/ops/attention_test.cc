// Blockwise attention: against the plain formula, with odd lengths, groups and long rows, with nothing to do,
// and recomputed; the same bits for any number of threads.
#include "ops/attention/attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "ops/attention/attention_tiles.h"
#include "ops/attention/cached_attention.h"
#include "ops/attention/two_way_blocks.h"
#include "ops/switches.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

struct Shape {
  int64_t rows, length, kv_heads, group, dim;
};

Tensors RandomHeads(const Shape& s, at::ScalarType type) {
  return {Random({s.rows, s.kv_heads, s.length, s.group, s.dim}, type),
          Random({s.rows, s.kv_heads, s.length, s.dim}, type), Random({s.rows, s.kv_heads, s.length, s.dim}, type)};
}

// The formula, effectively one head at a time: scores, mask, softmax, weighted sum.
at::Tensor Plain(const Tensors& x) {
  const auto size = x[0].sizes();
  const at::Tensor query = x[0].transpose(2, 3);                                         // [r, kv, group, length, dim]
  const at::Tensor key = x[1].unsqueeze(2), value = x[2].unsqueeze(2);                   // [r, kv, 1, length, dim]
  at::Tensor scores = query.matmul(key.transpose(-1, -2)) / std::sqrt(double(size[4]));  // [r, kv, group, l, l]
  scores = scores.masked_fill(at::ones({size[2], size[2]}, at::kBool).triu(1), -INFINITY);
  return scores.softmax(-1).matmul(value).permute({0, 3, 1, 2, 4}).reshape({size[0] * size[2], -1});
}

Comparison Against(const Tensors& heads, std::function<Tensors(const Tensors&)> op) {
  return {.inputs = heads, .weights = {}, .op = std::move(op), .plain = [](const Tensors& x, const Tensors&) {
            return Tensors{Plain(x)};
          }};
}

TEST(Attention, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const Shape& s : {Shape{2, 5, 2, 2, 8}, Shape{1, 1, 1, 1, 16}, Shape{3, 129, 1, 3, 20},
                           Shape{1, 300, 2, 1, 64}, Shape{1, 130, 1, 8, 32}}) {
      Compare(Against(RandomHeads(s, type),
                      [](const Tensors& x) { return Tensors{CausalAttention(Heads{x[0], x[1], x[2]})}; }),
              context + Concat(" length ", s.length, " group ", s.group));
    }
  });
}

TEST(Attention, AcceptsTheModelsLayoutToo) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    Compare({.inputs = {Random({2, 7, 6, 8}, type), Random({2, 7, 2, 8}, type), Random({2, 7, 2, 8}, type)},
             .weights = {},
             .op = [](const Tensors& x) { return Tensors{CausalAttention(x[0], x[1], x[2])}; },
             .plain =
                 [](const Tensors& x, const Tensors&) {
                   const at::Tensor query = x[0].reshape({2, 7, 2, 3, 8}).transpose(1, 2);
                   return Tensors{Plain({query, x[1].transpose(1, 2), x[2].transpose(1, 2)}).view({2, 7, 6, 8})};
                 }},
            context);
  });
}

TEST(Attention, RecomputingGivesTheSameResult) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    std::function<at::Tensor()> again;
    at::Tensor output;
    Compare(Against(RandomHeads({2, 50, 2, 3, 16}, type),
                    [&](const Tensors& x) {
                      Attended attended = CausalAttentionAgain({x[0], x[1], x[2]});
                      again = attended.again;
                      output = attended.output.detach();
                      EXPECT_TRUE(again().equal(output)) << context;  // before the backward pass
                      return Tensors{attended.output};
                    }),
            context);
    const at::Tensor later = again();  // and after it
    EXPECT_TRUE(later.equal(output)) << context;
    EXPECT_FALSE(later.requires_grad()) << context;
  });
}

TEST(Attention, TheRecomputedResultIsReleasedAfterUse) {
  const Tensors x = RandomHeads({1, 40, 1, 2, 16}, at::kFloat);
  const Attended attended = CausalAttentionAgain({x[0], x[1], x[2]});
  const at::Tensor first = attended.again(), second = attended.again(), third = attended.again();
  EXPECT_EQ(first.data_ptr(), second.data_ptr());
  EXPECT_NE(first.data_ptr(), third.data_ptr());
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Tensors x = RandomHeads({1, 70, 1, 2, 16}, at::kFloat);
  x[0] *= 300;
  const at::Tensor y = CausalAttention(Heads{x[0], x[1], x[2]});
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_LT(RelativeError(y, Plain({x[0].to(at::kDouble), x[1].to(at::kDouble), x[2].to(at::kDouble)})), 1e-4);
}

TEST(Attention, NoTokens) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Tensors x = RandomHeads({0, 4, 2, 2, 8}, type);
    for (at::Tensor& t : x) t.requires_grad_();
    const at::Tensor y = CausalAttention(Heads{x[0], x[1], x[2]});
    EXPECT_EQ(y.sizes(), (at::IntArrayRef{0, 32}));
    torch::autograd::backward({y}, {at::ones_like(y)});
    EXPECT_EQ(x[0].grad().numel(), 0);
  }
}

TEST(Attention, ThreadsDoNotChangeTheBits) {
  const Tensors values = RandomHeads({2, 100, 3, 2, 16}, at::kBFloat16);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    Tensors x;
    for (const at::Tensor& t : values) x.push_back(t.clone().requires_grad_());
    const at::Tensor y = CausalAttention(Heads{x[0], x[1], x[2]});
    torch::autograd::backward({y}, {at::ones_like(y)});
    at::set_num_threads(1);
    return Tensors{y.detach(), x[0].grad(), x[1].grad(), x[2].grad()};
  };
  const Tensors one = run(1), three = run(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

// Rows of different length, each advanced in its own steps, give what whole rows give: the first tokens at
// once, then some more, with idle rows and padding after the shorter ones.
TEST(Attention, WithAKeyValueCacheEqualsThatOfWholeRows) {
  const Shape s{3, 50, 2, 3, 16};
  const int64_t value_dim = 24;
  const std::vector<std::vector<int64_t>> steps = {{7, 1, 30}, {1, 1, 1}, {0, 1, 1}, {4, 40, 0}, {1, 1, 1}};
  ForEveryVersion([&](at::ScalarType type, const std::string& context) {
    Tensors x = RandomHeads(s, type);
    x[2] = Random({s.rows, s.kv_heads, s.length, value_dim}, type);
    Tensors wide = {x[0].to(at::kDouble), x[1].to(at::kDouble), x[2].to(at::kDouble)};
    const at::Tensor wanted = Plain(wide).view({s.rows, s.length, -1});
    KeyValues cache;
    std::vector<int64_t> past(s.rows, 0);
    for (const std::vector<int64_t>& fresh : steps) {
      const int64_t length = *std::max_element(fresh.begin(), fresh.end());
      Heads heads{at::full({s.rows, s.kv_heads, length, s.group, s.dim}, 7.0, x[0].options()),
                  at::full({s.rows, s.kv_heads, length, s.dim}, 7.0, x[0].options()),
                  at::full({s.rows, s.kv_heads, length, value_dim}, 7.0, x[0].options())};
      for (int64_t row = 0; row < s.rows; ++row) {
        heads.query[row].narrow(1, 0, fresh[row]).copy_(x[0][row].narrow(1, past[row], fresh[row]));
        heads.key[row].narrow(1, 0, fresh[row]).copy_(x[1][row].narrow(1, past[row], fresh[row]));
        heads.value[row].narrow(1, 0, fresh[row]).copy_(x[2][row].narrow(1, past[row], fresh[row]));
      }
      const at::Tensor found =
          CachedAttention(heads, 1 / std::sqrt(double(s.dim)), {past, fresh}, cache).view({s.rows, length, -1});
      for (int64_t row = 0; row < s.rows; ++row) {
        const at::Tensor mine = found[row].narrow(0, 0, fresh[row]);
        EXPECT_LT(RelativeError(mine, wanted[row].narrow(0, past[row], fresh[row])), Tolerance(type))
            << context << " row " << row << " from " << past[row];
        past[row] += fresh[row];
      }
    }
  });
}

// Half of the queries of each head, interleaved with others that stay unchanged; some have seen no key yet.
TEST(Attention, PartsMergeByTheirLogSumExps) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    if (type != at::kFloat) return;
    const at::Tensor output = Random({3, 8, 2, 5}), lse = Random({3, 8, 2}), before = output.clone();
    lse.select(1, 0).fill_(-std::numeric_limits<double>::infinity());
    const PartialAttention partial{output.narrow(1, 0, 4), lse.narrow(1, 0, 4)};
    const PartialAttention part{Random({3, 4, 2, 5}), Random({3, 4, 2})};
    const at::Tensor a = partial.log_sum_exp.to(at::kDouble).exp(), b = part.log_sum_exp.to(at::kDouble).exp();
    const at::Tensor wanted =
        (partial.output * a.unsqueeze(-1) + part.output * b.unsqueeze(-1)) / (a + b).unsqueeze(-1);
    MergePartial(partial, part);
    EXPECT_LT(RelativeError(partial.output, wanted), 1e-6) << context;
    EXPECT_LT(RelativeError(partial.log_sum_exp, (a + b).log()), 1e-6) << context;
    EXPECT_TRUE(output.narrow(1, 4, 4).equal(before.narrow(1, 4, 4))) << context;
  });
}

Heads HeadsOfTiles(at::ScalarType type) {
  return {Random({1, 2, 6, 2, 4}, type), Random({1, 2, 6, 4}, type), Random({1, 2, 6, 4}, type)};
}

// All see the first three keys that they may; the last three see the others in a second tile.
PartialAttention TwoTiles(const Heads& heads) {
  PartialAttention partial = EmptyPartial(heads.query, 4);
  AttendTiles(heads, 0.5,
              {{{.query = 0, .queries = 6, .key = 0, .keys = 3, .first = 0},
                {.query = 3, .queries = 3, .key = 3, .keys = 3, .first = 0}}},
              partial);
  return partial;
}

// Tiles of one row against plain attention, by the loops and by the reference, with tiles merged by the
// loops, by the kernel and by the reference.
void CompareTiles() {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    const Heads heads = HeadsOfTiles(type);
    const PartialAttention partial = TwoTiles(heads);
    const at::Tensor scores = at::einsum("bhqgd,bhkd->bhqgk", {heads.query.to(at::kDouble), heads.key.to(at::kDouble)});
    const at::Tensor unseen = at::ones({6, 6}, at::kBool).triu(1).view({1, 1, 6, 1, 6});
    const at::Tensor p = (scores * 0.5).masked_fill(unseen, -std::numeric_limits<double>::infinity()).softmax(-1);
    const at::Tensor wanted = at::einsum("bhqgk,bhkd->bhqgd", {p, heads.value.to(at::kDouble)});
    EXPECT_LT(RelativeError(partial.output, wanted), Tolerance(type)) << context;
  });
}

// Lengths on both sides of every block size: a document of many blocks, after others, against the plain
// formula. They exceed kScores and the largest number of rows per block.
TEST(Attention, OfLongTilesEqualsThatOfWholeRows) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const int64_t length : {383, 385, 700}) {
      const int64_t before = 5, all = before + length, group = 2;
      const Heads heads{Random({1, 1, all, group, 4}, type), Random({1, 1, all, 4}, type),
                        Random({1, 1, all, 4}, type)};
      PartialAttention partial = EmptyPartial(heads.query, 4);
      AttendTiles(heads, 0.5,
                  {{{.query = 0, .queries = before, .key = 0, .keys = before, .first = 0},
                    {.query = before, .queries = length, .key = before, .keys = length, .first = 0}}},
                  partial);
      const at::Tensor query = heads.query.to(at::kDouble).narrow(2, before, length);
      const at::Tensor key = heads.key.to(at::kDouble).narrow(2, before, length);
      const at::Tensor scores = at::einsum("bhqgd,bhkd->bhqgk", {query, key}) * 0.5;
      const at::Tensor unseen = at::ones({length, length}, at::kBool).triu(1).view({1, 1, length, 1, length});
      const at::Tensor p = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity()).softmax(-1);
      const at::Tensor wanted =
          at::einsum("bhqgk,bhkd->bhqgd", {p, heads.value.to(at::kDouble).narrow(2, before, length)});
      EXPECT_LT(RelativeError(partial.output.narrow(2, before, length), wanted), Tolerance(type))
          << context << " length " << length;
    }
  });
}

// Each tile of all heads by itself, without a mask.
at::Tensor PlainBothWays(const Tensors& x, const std::vector<AttentionTile>& tiles) {
  Tensors parts;
  for (const AttentionTile& tile : tiles) {
    const at::Tensor query = x[0][0].squeeze(2).narrow(1, tile.query, tile.queries);  // [heads, queries, dim]
    const at::Tensor key = x[1][0].narrow(1, tile.key, tile.keys), value = x[2][0].narrow(1, tile.key, tile.keys);
    const at::Tensor scores = query.matmul(key.transpose(1, 2)) / std::sqrt(double(query.size(2)));
    parts.push_back(scores.softmax(-1).matmul(value).transpose(0, 1).flatten(1));
  }
  return at::cat(parts);
}

// A vision tower's windows and frames, on both sides of every block size.
TEST(Attention, BothWaysInTilesIsThePlainFormula) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4, 16, 1, 7}, {383, 385}, {700, 5}}) {
      std::vector<AttentionTile> tiles;
      int64_t length = 0;
      for (const int64_t size : sizes) {
        tiles.push_back({.query = length, .queries = size, .key = length, .keys = size, .first = size - 1});
        length += size;
      }
      const Tensors x = RandomHeads({1, length, 3, 1, 8}, type);
      const Heads heads{x[0], x[1], x[2]};
      ASSERT_EQ(WhyNoTwoWayBlocks(heads, {tiles}), "");
      const AttentionResult result = TwoWayBlocks(heads, tiles);
      const at::Tensor gradient = Random({length, 3 * 8}, type);
      const Heads found = TwoWayBlocksBackward(heads, tiles, result, gradient);
      Tensors wide;
      for (const at::Tensor& part : x) wide.push_back(part.to(at::kDouble).requires_grad_());
      const at::Tensor wanted = PlainBothWays(wide, tiles);
      const Tensors gradients = torch::autograd::grad({wanted}, wide, {gradient.to(at::kDouble)});
      EXPECT_LT(RelativeError(result.output, wanted), Tolerance(type)) << length;
      EXPECT_LT(RelativeError(found.query, gradients[0]), Tolerance(type)) << length;
      EXPECT_LT(RelativeError(found.key, gradients[1]), Tolerance(type)) << length;
      EXPECT_LT(RelativeError(found.value, gradients[2]), Tolerance(type)) << length;
    }
  }
}

// Causal tiles, tiles with gaps and a row too many are not its.
TEST(Attention, BothWaysDeclinesOtherTiles) {
  const Tensors x = RandomHeads({1, 4, 2, 1, 8}, at::kFloat);
  const Heads heads{x[0], x[1], x[2]};
  const AttentionTile whole{.query = 0, .queries = 4, .key = 0, .keys = 4, .first = 3};
  AttentionTile causal = whole, shorter = whole;
  causal.first = 0;
  shorter.queries = shorter.keys = 3;
  EXPECT_EQ(WhyNoTwoWayBlocks(heads, {{whole}}), "");
  EXPECT_NE(WhyNoTwoWayBlocks(heads, {{causal}}), "");
  EXPECT_NE(WhyNoTwoWayBlocks(heads, {{shorter}}), "");
  EXPECT_NE(WhyNoTwoWayBlocks(heads, {{whole}, {whole}}), "");
}

TEST(Attention, OfTilesEqualsThatOfWholeRows) {
  CompareTiles();
  TurnOperatorsOff({"attention_tiles"});
  CompareTiles();
  TurnOperatorsOff({});
}

// An operator's switch affects only that operator: with the merge off, the tile loops still run, bit for bit.
TEST(Attention, TurningTheMergeOffLeavesTheTilesAlone) {
  const Heads heads = HeadsOfTiles(at::kBFloat16);
  const PartialAttention before = TwoTiles(heads);
  TurnOperatorsOff({"attention_merge"});
  const PartialAttention after = TwoTiles(heads);
  TurnOperatorsOff({});
  EXPECT_TRUE(after.output.equal(before.output));
  EXPECT_TRUE(after.log_sum_exp.equal(before.log_sum_exp));
}

}  // namespace
}  // namespace trireme
