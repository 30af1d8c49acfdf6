// Attention over blocks equals attention over whole rows, however the blocks lie in memory, for any mix of
// single tokens and parts of prompts, for heads and for latents whose values are part of their keys.
#include "ops/attention/paged_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ops/attention/cached_attention.h"
#include "ops/choose.h"

namespace trireme {
namespace {

constexpr int64_t kHeads = 2, kGroup = 3, kDim = 16, kBlock = 4, kBlocks = 40;

struct PagedCase {
  at::ScalarType type;
  int64_t value_dim;
  bool shared;  // values are the first elements of the keys
  int64_t window = 0;
  double soft_cap = 0;
};

// Blocks are taken in random order.
class Tables {
 public:
  explicit Tables(size_t rows) : rows_(rows) {
    for (int32_t block = 0; block < kBlocks; ++block) free_.push_back(block);
    std::shuffle(free_.begin(), free_.end(), std::mt19937(3));
  }
  const std::vector<int32_t>& Of(size_t row, int64_t tokens) {
    while (std::ssize(rows_[row]) * kBlock < tokens) {
      rows_[row].push_back(free_.back());
      free_.pop_back();
    }
    return rows_[row];
  }

 private:
  std::vector<std::vector<int32_t>> rows_;
  std::vector<int32_t> free_;
};

double RelativeErrorOf(const at::Tensor& found, const at::Tensor& wanted) {
  return ((found.to(at::kDouble) - wanted.to(at::kDouble)).norm() / (wanted.to(at::kDouble).norm() + 1e-30))
      .item<double>();
}

void ExpectWholeRows(const PagedCase& c) {
  // New tokens by step and row; rows of one come first.
  const std::vector<std::vector<int64_t>> steps = {{1, 1, 7}, {1, 1, 5}, {1, 9, 12}, {1, 1, 1}, {1, 0, 3}, {1, 2, 0}};
  const int64_t kv_heads = c.shared ? 1 : kHeads;
  std::vector<KeyValues> whole(3);
  std::vector<int64_t> past(3, 0);
  Tables tables(3);
  PagedKeyValues blocks;
  PagedScratch scratch;
  for (const std::vector<int64_t>& fresh : steps) {
    const int64_t padding = 2, tokens = fresh[0] + fresh[1] + fresh[2] + padding;
    const auto random = [&](at::IntArrayRef shape) { return at::randn(shape).to(c.type); };
    Heads heads{random({1, kv_heads, tokens, kGroup, kDim}), random({1, kv_heads, tokens, kDim}), {}};
    const at::Tensor value =
        c.shared ? heads.key.narrow(3, 0, c.value_dim) : random({1, kv_heads, tokens, c.value_dim});
    if (!c.shared) heads.value = value;
    PagedRows rows{.block_size = kBlock, .blocks = kBlocks};
    std::vector<at::Tensor> wanted;
    int64_t begin = 0;
    for (size_t row = 0; row < fresh.size(); ++row) {
      if (fresh[row] == 0) continue;
      rows.rows.push_back({past[row], fresh[row], tables.Of(row, past[row] + fresh[row])});
      const auto own = [&](const at::Tensor& all) { return all.narrow(2, begin, fresh[row]).contiguous(); };
      wanted.push_back(CachedAttention({own(heads.query), own(heads.key), own(value)}, 0.3,
                                       {{past[row]}, {fresh[row]}, c.window, c.soft_cap}, whole[row]));
      begin += fresh[row];
      past[row] += fresh[row];
    }
    const at::Tensor found = PagedAttention(heads, c.value_dim, 0.3, rows, blocks, scratch, c.window, c.soft_cap);
    ASSERT_EQ(found.sizes(), (std::vector<int64_t>{tokens, kv_heads * kGroup * c.value_dim}));
    EXPECT_LT(RelativeErrorOf(found.narrow(0, 0, begin), at::cat(wanted)), c.type == at::kFloat ? 1e-6 : 1e-2);
    EXPECT_EQ(found.narrow(0, begin, padding).abs().max().item<float>(), 0) << "padding";
  }
}

TEST(PagedAttention, EqualsThatOfWholeRows) {
  ExpectWholeRows({at::kFloat, kDim, false});
  ExpectWholeRows({at::kFloat, 24, false});
  ExpectWholeRows({at::kBFloat16, kDim, false});
}

TEST(PagedAttention, OverLatentsEqualsThatOfWholeRows) {
  ExpectWholeRows({at::kFloat, 10, true});
  ExpectWholeRows({at::kBFloat16, 10, true});
}

TEST(PagedAttention, ByTheReferenceEqualsThatOfWholeRows) {
  const ReferenceOnly reference;
  ExpectWholeRows({at::kFloat, kDim, false});
  ExpectWholeRows({at::kFloat, 10, true});
}

TEST(PagedAttention, UnderAWindowEqualsThatOfWholeRows) {
  for (const int64_t window : {1, 4, 9}) {
    ExpectWholeRows({at::kFloat, kDim, false, window});
    ExpectWholeRows({at::kBFloat16, kDim, false, window});
    const ReferenceOnly reference;
    ExpectWholeRows({at::kFloat, kDim, false, window});
  }
}

TEST(PagedAttention, WithASoftCapEqualsThatOfWholeRows) {
  ExpectWholeRows({at::kFloat, kDim, false, 0, 0.5});
  ExpectWholeRows({at::kBFloat16, kDim, false, 4, 0.5});
  const ReferenceOnly reference;
  ExpectWholeRows({at::kFloat, kDim, false, 4, 0.5});
}

// A token under a window is one whose row begins with that window.
TEST(CachedAttention, UnderAWindowForgetsWhatIsBeforeIt) {
  constexpr int64_t kTokens = 12, kWindow = 5;
  const Heads heads{at::randn({1, kHeads, kTokens, kGroup, kDim}), at::randn({1, kHeads, kTokens, kDim}),
                    at::randn({1, kHeads, kTokens, kDim})};
  const auto attend = [&](int64_t begin, int64_t window) {
    const auto from = [&](const at::Tensor& all) { return all.narrow(2, begin, kTokens - begin).contiguous(); };
    KeyValues cache;
    return CachedAttention({from(heads.query), from(heads.key), from(heads.value)}, 0.3,
                           {{0}, {kTokens - begin}, window}, cache)[kTokens - begin - 1];
  };
  const at::Tensor wanted = attend(kTokens - kWindow, 0);
  EXPECT_LT(RelativeErrorOf(attend(0, kWindow), wanted), 1e-6);
  EXPECT_GT(RelativeErrorOf(attend(0, kWindow + 1), wanted), 1e-3);
  const ReferenceOnly reference;
  EXPECT_LT(RelativeErrorOf(attend(0, kWindow), wanted), 1e-6);
}

// A decoding row is what it is alone, bit for bit; more heads on one key-value head than a call takes, as latents have.
TEST(PagedAttention, DecodingRowsDoNotDependOnEachOther) {
  constexpr int64_t kRows = 5, kMany = 35;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto random = [&](at::IntArrayRef shape) { return at::randn(shape).to(type); };
    PagedKeyValues blocks{random({kBlocks, kHeads, kBlock, kDim}), random({kBlocks, kHeads, kBlock, 7})};
    const Heads heads{random({1, kHeads, kRows, kMany, kDim}), random({1, kHeads, kRows, kDim}),
                      random({1, kHeads, kRows, 7})};
    PagedRows rows{.block_size = kBlock, .blocks = kBlocks};
    Tables tables(kRows);
    for (int64_t row = 0; row < kRows; ++row)
      rows.rows.push_back({row * 5 + 1, 1, tables.Of(static_cast<size_t>(row), row * 5 + 2)});
    PagedScratch scratch;
    const at::Tensor together = PagedAttention(heads, 7, 0.3, rows, blocks, scratch);
    for (int64_t row = 0; row < kRows; ++row) {
      const Heads own{heads.query.narrow(2, row, 1), heads.key.narrow(2, row, 1), heads.value.narrow(2, row, 1)};
      const PagedRows one{.block_size = kBlock, .blocks = kBlocks, .rows = {rows.rows[static_cast<size_t>(row)]}};
      const ChoiceRecord record;
      EXPECT_TRUE(PagedAttention(own, 7, 0.3, one, blocks, scratch)[0].equal(together[row])) << row;
      EXPECT_EQ(record.ChosenFor("paged_attention"), "cpu");
      const ReferenceOnly reference;
      EXPECT_LT(RelativeErrorOf(together[row], PagedAttention(own, 7, 0.3, one, blocks, scratch)[0]),
                type == at::kFloat ? 1e-6 : 1e-2);
    }
  }
}

// Blocks that two rows share are read by both.
TEST(PagedAttention, RowsMayShareBlocks) {
  const Heads heads{at::randn({1, kHeads, 2 * kBlock, kGroup, kDim}), at::randn({1, kHeads, 2 * kBlock, kDim}),
                    at::randn({1, kHeads, 2 * kBlock, kDim})};
  const auto part = [](const Heads& all, int64_t begin, int64_t size) {
    return Heads{all.query.narrow(2, begin, size), all.key.narrow(2, begin, size), all.value.narrow(2, begin, size)};
  };
  PagedKeyValues blocks;
  PagedScratch scratch;
  PagedRows rows{.block_size = kBlock, .blocks = 4, .rows = {{0, 2 * kBlock, {3, 1}}}};
  const at::Tensor whole = PagedAttention(heads, kDim, 0.3, rows, blocks, scratch);
  rows.rows = {{kBlock, kBlock, {3, 0}}};  // another row with the same first block
  const at::Tensor second = PagedAttention(part(heads, kBlock, kBlock), kDim, 0.3, rows, blocks, scratch);
  EXPECT_LT(RelativeErrorOf(second, whole.narrow(0, kBlock, kBlock)), 1e-6);
}

}  // namespace
}  // namespace trireme
