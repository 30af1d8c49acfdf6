// Attention on device npu against the cpu, forward and backward: rows, packed documents with and without
// padding, values smaller than keys, tiles of a ring, generation; and that nothing but the fused operators
// and copies run. Started by tests/parity/npu_start, on the twin.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/npu/npu.h"
#include "core/npu/operators.h"
#include "core/tensor/tensor_devices.h"
#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/attention/npu_attention.h"
#include "ops/attention/packed_attention.h"
#include "ops/attention/paged_attention.h"
#include "ops/attention/sinks.h"
#include "ops/attention/windowed_tiles.h"
#include "ops/choose.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

struct HeadSizes {
  int64_t rows, kv_heads, length, group, dim, value_dim;
};

Heads RandomHeadsOf(const HeadSizes& s, at::ScalarType type = at::kFloat) {
  const auto random = [&](at::IntArrayRef shape) { return at::randn(shape).to(type); };
  return {random({s.rows, s.kv_heads, s.length, s.group, s.dim}), random({s.rows, s.kv_heads, s.length, s.dim}),
          random({s.rows, s.kv_heads, s.length, s.value_dim})};
}

double ErrorOf(const at::Tensor& found, const at::Tensor& wanted) {
  const at::Tensor right = wanted.cpu().to(at::kDouble);
  return ((found.cpu().to(at::kDouble) - right).norm() / (right.norm() + 1e-30)).item<double>();
}

// Documents of these lengths, a negative one is padding.
std::vector<AttentionTile> DocumentsOf(const std::vector<int64_t>& lengths) {
  std::vector<AttentionTile> tiles;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const int64_t size = std::abs(length);
    if (length > 0) tiles.push_back({.query = begin, .queries = size, .key = begin, .keys = size});
    begin += size;
  }
  return tiles;
}

class NpuAttention : public testing::Test {
 protected:
  static void SetUpTestSuite() { device_ = NpuEntry().open(TestDevice().index()).torch(); }

  static Heads On(const Heads& heads) {
    return {heads.query.to(device_), heads.key.to(device_), heads.value.to(device_)};
  }
  static std::map<std::string, uint64_t> Calls() {
    at::zeros({1}, at::TensorOptions(device_)).cpu();  // what torch_npu still queues is not counted yet
    std::map<std::string, uint64_t> calls;
    for (const NpuOperator& entry : ListNpuOperators()) calls[entry.name] = entry.calls;
    return calls;
  }
  // What ran since, apart from what only moves, casts, adds or fills.
  static std::set<std::string> RanSince(const std::map<std::string, uint64_t>& before) {
    static const std::set<std::string> kMoves = {
        "aclnnInplaceCopy", "aclnnCat", "aclnnCast", "aclnnInplaceZero",       "aclnnInplaceOne",
        "aclnnInplaceAdd",  "aclnnAdd", "aclnnLog",  "aclnnInplaceFillScalar", "aclnnTriu"};
    std::set<std::string> ran;
    for (const auto& [name, calls] : Calls()) {
      if (calls > before.at(name) && !kMoves.contains(name)) ran.insert(name);
    }
    return ran;
  }

  static void ComparePacked(const HeadSizes& s, const RowTiles& tiles) {
    const double scale = 0.7 / std::sqrt(static_cast<double>(s.dim));
    const Heads host = RandomHeadsOf(s), device = On(host);
    const at::Tensor gradient = at::randn({s.rows, s.kv_heads, s.length, s.group, s.value_dim});
    const auto before = Calls();
    const PartialAttention wanted = AttendPacked(host, scale, tiles);
    const PartialAttention found = AttendPacked(device, scale, tiles);
    EXPECT_LT(ErrorOf(found.output, wanted.output), 1e-5);
    const Heads right = AttendPackedBackward(host, scale, tiles, {wanted.log_sum_exp, gradient, wanted.output});
    const Heads got =
        AttendPackedBackward(device, scale, tiles, {found.log_sum_exp, gradient.to(device_), found.output});
    EXPECT_LT(ErrorOf(got.query, right.query), 1e-5);
    EXPECT_LT(ErrorOf(got.key, right.key), 1e-5);
    EXPECT_LT(ErrorOf(got.value, right.value), 1e-5);
    EXPECT_EQ(RanSince(before),
              (std::set<std::string>{"aclnnFlashAttentionUnpaddingScoreGrad", "aclnnFlashAttentionVarLenScore"}));
  }

  // The same with sinks, and their gradient.
  static void CompareSinks(const HeadSizes& s, const RowTiles& tiles, at::ScalarType type, double tolerance) {
    const Heads host = RandomHeadsOf(s, type);
    const at::Tensor gradient = at::randn({s.rows, s.kv_heads, s.length, s.group, s.value_dim}).to(type);
    const at::Tensor sinks = (at::randn({s.kv_heads, s.group}) * 2).to(type);
    std::vector<std::vector<at::Tensor>> results;
    for (const at::Device device : {at::Device(at::kCPU), device_}) {
      const Heads heads{host.query.to(device), host.key.to(device), host.value.to(device)};
      const auto before = Calls();
      const PartialAttention found = AttendPackedWithSums(heads, 0.3, tiles);
      const ChoiceRecord record;
      ApplySinks(found, sinks.to(device));
      const bool kernel = device != at::kCPU && s.value_dim * found.output.element_size() % 32 == 0;
      EXPECT_EQ(record.ChosenFor("attention_sinks"), kernel ? "ascendc" : "aten");
      const AttendedQueries queries{found.log_sum_exp, gradient.to(device), found.output.to(type)};
      const Heads sums = AttendPackedWithSumsBackward(heads, 0.3, tiles, queries);
      results.push_back({found.output, found.log_sum_exp, SinksGradient(queries, sinks.to(device)), sums.query,
                         sums.key, sums.value});
      const std::set<std::string> ran = RanSince(before);
      EXPECT_EQ(ran.contains("aclnnFlashAttentionVarLenScore"), device != at::kCPU);
      for (const char* plain : {"aclnnBatchMatMul", "aclnnMatmul", "aclnnSoftmax"})
        EXPECT_FALSE(ran.contains(plain)) << plain;
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_LT(ErrorOf(results[1][i], results[0][i]), tolerance) << i;
  }

  static inline at::Device device_ = at::kCPU;
};

// Rows of one length, documents of many, padding, windows; heads of a size that the kernel does not take.
TEST_F(NpuAttention, WithSinksIsTheCpus) {
  CompareSinks({3, 2, 20, 2, 16, 16}, RowTiles(3, DocumentsOf({20})), at::kFloat, 1e-5);
  CompareSinks({1, 2, 21, 4, 20, 20}, {DocumentsOf({5, 5, 1, -4, 6})}, at::kFloat, 1e-5);
  CompareSinks({2, 1, 40, 3, 32, 32}, Windowed({DocumentsOf({30, 10}), DocumentsOf({-1, 8, -31})}, 7), at::kFloat,
               1e-5);
  CompareSinks({2, 2, 70, 4, 64, 64}, RowTiles(2, DocumentsOf({33, 37})), at::kBFloat16, 2e-2);
}

// In generation, over rows that advance in their own steps.
TEST_F(NpuAttention, WithSinksOverACacheIsTheCpus) {
  const std::vector<std::vector<int64_t>> steps = {{7, 1, 30}, {1, 1, 1}, {0, 1, 1}, {4, 20, 0}, {1, 1, 1}};
  const at::Tensor sinks = at::randn({2, 3});
  for (const int64_t window : {0, 6}) {
    KeyValues host_cache, device_cache;
    CachedRows rows{.past = {0, 0, 0}, .fresh = {}, .window = window};
    const auto before = Calls();
    for (const std::vector<int64_t>& fresh : steps) {
      rows.fresh = fresh;
      const int64_t length = *std::max_element(fresh.begin(), fresh.end());
      const Heads host = RandomHeadsOf({3, 2, length, 3, 32, 32});
      rows.sinks = sinks;
      const at::Tensor wanted = CachedAttention(host, 0.2, rows, host_cache).view({3, length, -1});
      rows.sinks = sinks.to(device_);
      const at::Tensor found = CachedAttention(On(host), 0.2, rows, device_cache).view({3, length, -1});
      for (size_t row = 0; row < 3; ++row) {
        const auto own = [&](const at::Tensor& all) { return all[static_cast<int64_t>(row)].narrow(0, 0, fresh[row]); };
        EXPECT_LT(ErrorOf(own(found), own(wanted)), 1e-5) << "row " << row << " window " << window;
        rows.past[row] += fresh[row];
      }
    }
    EXPECT_FALSE(RanSince(before).contains("aclnnBatchMatMul"));
  }
}

TEST_F(NpuAttention, OfPackedDocumentsIsTheCpus) {
  ComparePacked({1, 2, 12, 2, 16, 16}, {DocumentsOf({5, 1, 6})});
  ComparePacked({2, 1, 9, 4, 24, 24}, {DocumentsOf({3, -2, 4}), DocumentsOf({-1, 8})});
  ComparePacked({2, 2, 6, 1, 8, 8}, {DocumentsOf({6}), DocumentsOf({-6})});
}

TEST_F(NpuAttention, OfWindowsIsTheCpus) {
  ComparePacked({1, 2, 40, 2, 16, 16}, Windowed({DocumentsOf({22, 3, 15})}, 5));
  ComparePacked({2, 1, 9, 4, 24, 24}, Windowed({DocumentsOf({3, -2, 4}), DocumentsOf({-1, 8})}, 2));
  const AttentionTile earlier{.query = 0, .queries = 20, .key = 0, .keys = 20, .first = 20};  // of a ring
  ComparePacked({1, 2, 40, 2, 16, 16}, Windowed({{earlier}}, 7));
}

TEST_F(NpuAttention, OfLatentHeadsIsTheCpus) {
  ComparePacked({1, 3, 40, 1, 192, 128}, {DocumentsOf({17, 23})});
  ComparePacked({2, 2, 10, 1, 24, 16}, {DocumentsOf({10}), DocumentsOf({4, -6})});
}

// As in a vision tower, whose heads have these sizes: images, or windows of them, attend to themselves. 1,500 windows
// are two calls.
TEST_F(NpuAttention, BothWaysIsTheCpus) {
  const auto both_ways = [](std::vector<AttentionTile> tiles) {
    for (AttentionTile& tile : tiles) tile.first = tile.keys - 1;
    return RowTiles{std::move(tiles)};
  };
  for (const int64_t dim : {64, 72, 80}) ComparePacked({1, 4, 60, 1, dim, dim}, both_ways(DocumentsOf({24, 4, 32})));
  ComparePacked({1, 2, 6000, 1, 8, 8}, both_ways(DocumentsOf(std::vector<int64_t>(1500, 4))));
}

TEST_F(NpuAttention, OfTenThousandDocumentsIsTheCpus) {
  std::vector<int64_t> lengths(10000, 1);
  lengths[77] = 30;
  ComparePacked({1, 1, 10029, 1, 8, 8}, {DocumentsOf(lengths)});
}

TEST_F(NpuAttention, OfDocumentsWithoutTokensIsTheCpus) {
  std::vector<AttentionTile> tiles = DocumentsOf({3, 1, 4});
  tiles.insert(tiles.begin() + 1, {.query = 3, .queries = 0, .key = 3, .keys = 0});
  ComparePacked({1, 2, 8, 2, 16, 16}, {tiles});
}

// As beyond the operator's 2²⁰ tokens, with limits that a test can pass: cut, and merged exactly.
TEST_F(NpuAttention, OfARowBeyondTheLimitIsMerged) {
  const HeadSizes s{2, 2, 60, 2, 16, 16};
  const RowTiles tiles = {DocumentsOf({50, 10}), DocumentsOf({60})};
  const VarLenLimits limits{.sequences = 3, .tokens = 16};
  const Heads host = RandomHeadsOf(s), device = On(host);
  const at::Tensor gradient = at::randn({s.rows, s.kv_heads, s.length, s.group, s.value_dim});
  const PartialAttention wanted = AttendPacked(host, 0.2, tiles);
  const auto before = Calls();
  const PartialAttention found = NpuPacked(device, 0.2, tiles, limits);
  EXPECT_GT(Calls().at("aclnnFlashAttentionVarLenScore"), before.at("aclnnFlashAttentionVarLenScore") + 8);
  EXPECT_LT(ErrorOf(found.output, wanted.output), 1e-5);
  const Heads right = AttendPackedBackward(host, 0.2, tiles, {wanted.log_sum_exp, gradient, wanted.output});
  const Heads got =
      NpuPackedBackward(device, 0.2, tiles, {found.log_sum_exp, gradient.to(device_), found.output}, limits);
  EXPECT_LT(ErrorOf(got.query, right.query), 1e-5);
  EXPECT_LT(ErrorOf(got.key, right.key), 1e-5);
  EXPECT_LT(ErrorOf(got.value, right.value), 1e-5);
}

TEST_F(NpuAttention, OfNoTokensIsEmpty) {
  const Heads heads = On(RandomHeadsOf({0, 2, 4, 2, 8, 8}));
  EXPECT_EQ(AttendPacked(heads, 1, {}).output.numel(), 0);
}

TEST_F(NpuAttention, OfRowsIsTheCpusAndRecomputes) {
  const HeadSizes s{2, 2, 33, 3, 16, 16};
  const Heads host = RandomHeadsOf(s);
  const at::Tensor gradient = at::randn({s.rows * s.length, s.kv_heads * s.group * s.dim});
  std::vector<std::vector<at::Tensor>> results;
  for (const bool on_npu : {false, true}) {
    for (const bool again : {false, true}) {
      const Heads own = on_npu ? On(host) : host;
      const Heads leaves{own.query.clone().requires_grad_(), own.key.clone().requires_grad_(),
                         own.value.clone().requires_grad_()};
      const auto before = Calls();
      Attended attended{CausalAttention(leaves), {}};
      if (again) attended = CausalAttentionAgain(leaves);
      if (again) {
        EXPECT_EQ(ErrorOf(attended.again(), attended.output.detach()), 0);
      }
      torch::autograd::backward({attended.output}, {gradient.to(own.query.device())});
      if (on_npu) {
        EXPECT_EQ(RanSince(before).count("aclnnBatchMatMul"), 0u);
        EXPECT_EQ(RanSince(before).count("aclnnFlashAttentionVarLenScore"), 1u);
      }
      results.push_back({attended.output.detach(), leaves.query.grad(), leaves.key.grad(), leaves.value.grad()});
    }
  }
  for (size_t run = 1; run < results.size(); ++run) {
    for (size_t i = 0; i < 4; ++i) EXPECT_LT(ErrorOf(results[run][i], results[0][i]), 1e-5) << run << i;
  }
}

// One rank's part of a ring: its own keys, then another's, with the final statistics in the backward pass.
TEST_F(NpuAttention, OfTilesIsTheCpus) {
  const HeadSizes s{2, 2, 8, 2, 16, 8};
  const double scale = 0.25;
  const std::vector<RowTiles> steps = {{{{0, 4, 0, 4, 0}, {4, 4, 0, 4, 12}, {4, 4, 4, 4, 0}}, DocumentsOf({3, 5})},
                                       {{{4, 4, 0, 4, 8}, {4, 4, 4, 4, 4}}, {{2, 1, 0, 2, 7}, {3, 5, 2, 6, 9}}}};
  const Heads first = RandomHeadsOf(s), second = RandomHeadsOf(s);
  const at::Tensor gradient = at::randn({s.rows, s.kv_heads, s.length, s.group, s.value_dim});
  std::vector<std::vector<at::Tensor>> results;
  for (const bool on_npu : {false, true}) {
    const auto before = Calls();
    const auto at_step = [&](int step) {
      const Heads& other = step == 0 ? first : second;
      const Heads heads{first.query, other.key, other.value};
      return on_npu ? On(heads) : heads;
    };
    PartialAttention partial = EmptyPartial(at_step(0).query, s.value_dim);
    for (int step = 0; step < 2; ++step) AttendTiles(at_step(step), scale, steps[step], partial);
    std::vector<at::Tensor> result = {partial.output, partial.log_sum_exp};
    const AttendedQueries queries(partial.log_sum_exp, gradient.to(partial.output.device()), partial.output);
    for (int step = 0; step < 2; ++step) {
      const Heads heads = at_step(step);
      Heads sums{at::zeros_like(heads.query), at::zeros_like(heads.key), at::zeros_like(heads.value)};
      AttendTilesBackward(heads, scale, steps[step], queries, sums);
      result.insert(result.end(), {sums.query, sums.key, sums.value});
    }
    if (on_npu) {
      EXPECT_EQ(RanSince(before),
                (std::set<std::string>{"aclnnFlashAttentionUnpaddingScoreGrad", "aclnnFlashAttentionVarLenScore"}));
    }
    results.push_back(result);
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_LT(ErrorOf(results[1][i], results[0][i]), 1e-5) << i;
  }
}

// Rows of different length that advance in their own steps: by the operator for generation where it takes the
// heads, by that for training where it does not.
TEST_F(NpuAttention, OverACacheIsTheCpus) {
  const std::vector<std::vector<int64_t>> steps = {{7, 1, 30}, {1, 1, 1}, {0, 1, 1}, {4, 20, 0}, {1, 1, 1}};
  struct Kind {
    at::ScalarType type;
    int64_t dim, value_dim;
    const char* op;
    double tolerance;
  };
  for (const Kind& kind : {Kind{at::kBFloat16, 32, 32, "aclnnFusedInferAttentionScoreV3", 2e-2},
                           Kind{at::kBFloat16, 24, 16, "aclnnFlashAttentionVarLenScore", 2e-2},
                           Kind{at::kFloat, 32, 32, "aclnnFlashAttentionVarLenScore", 1e-5}}) {
    KeyValues host_cache, device_cache;
    std::vector<int64_t> past(3, 0);
    const auto before = Calls();
    for (const std::vector<int64_t>& fresh : steps) {
      const int64_t length = *std::max_element(fresh.begin(), fresh.end());
      const Heads host = RandomHeadsOf({3, 2, length, 3, kind.dim, kind.value_dim}, kind.type);
      const at::Tensor wanted = CachedAttention(host, 0.2, {past, fresh}, host_cache).view({3, length, -1});
      const at::Tensor found = CachedAttention(On(host), 0.2, {past, fresh}, device_cache).view({3, length, -1});
      EXPECT_TRUE(found.isfinite().all().item<bool>());
      for (int64_t row = 0; row < 3; ++row) {
        if (fresh[row] == 0) continue;
        const at::Tensor mine = found[row].narrow(0, 0, fresh[row]);
        EXPECT_LT(ErrorOf(mine, wanted[row].narrow(0, 0, fresh[row])), kind.tolerance)
            << "row " << row << " from " << past[row] << " " << kind.op;
        past[row] += fresh[row];
      }
    }
    const std::set<std::string> ran = RanSince(before);
    EXPECT_TRUE(ran.contains(kind.op)) << kind.op;
    for (const char* plain : {"aclnnBatchMatMul", "aclnnMatmul", "aclnnSoftmax"})
      EXPECT_FALSE(ran.contains(plain)) << plain;
  }
}

// A cache in blocks, with a decoding row beside a part of a prompt: still by the operator for generation. Of one
// key-value head, too, as a rank of a wide tensor-parallel group has: its tensors may be views where others are copies.
TEST_F(NpuAttention, OverBlocksIsTheCpus) {
  const std::vector<PagedRows> steps = {
      {.block_size = 4, .blocks = 9, .rows = {{0, 6, {5, 2}}, {0, 9, {7, 0, 3}}}},
      {.block_size = 4, .blocks = 9, .rows = {{6, 1, {5, 2}}, {9, 1, {7, 0, 3}}}},
      {.block_size = 4, .blocks = 9, .rows = {{7, 1, {5, 2}}, {10, 5, {7, 0, 3, 8}}}}};
  for (const int64_t kv_heads : {1, 2}) {
    PagedKeyValues host_blocks, device_blocks;
    PagedScratch host_scratch, device_scratch;
    const auto before = Calls();
    for (const PagedRows& rows : steps) {
      const int64_t tokens = rows.rows[0].fresh + rows.rows[1].fresh;
      const Heads host = RandomHeadsOf({1, kv_heads, tokens, 3, 32, 32}, at::kBFloat16);
      const at::Tensor wanted = PagedAttention(host, 32, 0.2, rows, host_blocks, host_scratch);
      device_scratch.tables.clear();
      const at::Tensor found = PagedAttention(On(host), 32, 0.2, rows, device_blocks, device_scratch);
      EXPECT_LT(ErrorOf(found, wanted), 2e-2) << kv_heads;
    }
    const std::set<std::string> ran = RanSince(before);
    EXPECT_TRUE(ran.contains("aclnnFusedInferAttentionScoreV3"));
    for (const char* plain : {"aclnnBatchMatMul", "aclnnMatmul", "aclnnSoftmax"})
      EXPECT_FALSE(ran.contains(plain)) << plain;
  }
}

// Decoding rows over blocks of a size that the operator takes: by its table, without a copy of the blocks; where
// rows share so many that the tables name more than there are, by a copy.
TEST_F(NpuAttention, DecodingOverBlocksReadsThemInPlace) {
  for (const bool shared : {false, true}) {
    const std::vector<int32_t> first = {5, 2}, own = {1, 0, 3}, shares = {5, 2, 3};
    const std::vector<int32_t>& second = shared ? shares : own;
    constexpr int64_t blocks = 6;
    PagedRows rows{.block_size = 16, .blocks = blocks, .rows = {{20, 1, first}, {40, 1, second}}};
    if (shared) rows.rows.push_back({33, 1, second});
    const auto count = std::ssize(rows.rows);
    const Heads host = RandomHeadsOf({1, 2, count, 3, 32, 32}, at::kBFloat16);
    const at::Tensor pool = RandomHeadsOf({blocks, 2, 16, 1, 32, 32}, at::kBFloat16).key;
    const at::Tensor other = pool.flip(0).contiguous();
    PagedKeyValues host_blocks{pool.clone(), other.clone()};
    PagedKeyValues device_blocks{pool.to(device_), other.to(device_)};
    PagedScratch host_scratch, device_scratch;
    const at::Tensor wanted = PagedAttention(host, 32, 0.2, rows, host_blocks, host_scratch);
    const ChoiceRecord record;
    const at::Tensor found = PagedAttention(On(host), 32, 0.2, rows, device_blocks, device_scratch);
    EXPECT_EQ(record.ChosenFor("paged_attention"), shared ? "aten" : "torch_npu");
    EXPECT_LT(ErrorOf(found, wanted), 2e-2);
  }
}

// What the fused operators do not take runs as before, and the list says why.
TEST_F(NpuAttention, OfHeadsThatAreNotTakenFallsBack) {
  const RowTiles tiles = {DocumentsOf({2, 3})};
  for (const HeadSizes& sizes : {HeadSizes{1, 1, 5, 1, 800, 800}, HeadSizes{1, 1, 5, 1, 8, 16}}) {
    const Heads host = RandomHeadsOf(sizes);
    const at::Tensor wanted = AttendPacked(host, 0.1, tiles).output;
    const ChoiceRecord record;
    EXPECT_LT(ErrorOf(AttendPacked(On(host), 0.1, tiles).output, wanted), 1e-5);
    EXPECT_EQ(record.ChosenFor("attention_tiles"), "aten");
  }
}

}  // namespace
}  // namespace trireme
