#include "ops/attention/attention_tiles.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/base/error.h"
#include "ops/attention/ascendc.h"
#include "ops/attention/cpu.h"
#include "ops/attention/npu_attention.h"
#include "ops/attention/packed_attention.h"
#include "ops/attention/windowed_tiles.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/matmul.h"
#include "ops/operator.h"

namespace trireme {
namespace {

struct TileSizes {
  int64_t kv_heads, queries, keys, group, dim, value_dim, items;
  float scale;

  TileSizes(const Heads& heads, double scale)
      : kv_heads(heads.query.size(1)),
        queries(heads.query.size(2)),
        keys(heads.key.size(2)),
        group(heads.query.size(3)),
        dim(heads.query.size(4)),
        value_dim(heads.value.size(3)),
        items(heads.query.size(0) * kv_heads),
        scale(static_cast<float>(scale)) {}
};

// A tile cut into blocks of query rows, each with the keys that any of them attends to.
struct Block {
  int64_t query, key, rows, keys, first, window;
  float soft_cap;

  int64_t scores() const { return rows * keys; }
};

constexpr int64_t kScores = int64_t{1} << 18;  // per block: what fits into a core's own cache

template <typename Work>
void ForEachBlock(const std::vector<AttentionTile>& tiles, int64_t group, const Work& work) {
  for (const AttentionTile& tile : tiles) {
    const int64_t reach = tile.window > 0 ? std::min(tile.keys, tile.window) : tile.keys;
    const int64_t most = std::clamp<int64_t>(kScores / std::max<int64_t>(reach, 1), 32, 384);
    const int64_t step = std::max<int64_t>(most / group, 1);
    for (int64_t begin = 0; begin < tile.queries; begin += step) {
      const int64_t positions = std::min(step, tile.queries - begin), first = tile.first + begin;
      const int64_t hidden = tile.window > 0 ? std::max<int64_t>(first - tile.window + 1, 0) : 0;
      work(Block{.query = (tile.query + begin) * group,
                 .key = tile.key + hidden,
                 .rows = positions * group,
                 .keys = std::min(tile.keys, first + positions) - hidden,
                 .first = first - hidden,
                 .window = tile.window,
                 .soft_cap = tile.soft_cap});
    }
  }
}

// The largest block of any row's tiles.
Block Largest(const RowTiles& tiles, int64_t group) {
  Block largest{};
  for (const auto& row : tiles) {
    ForEachBlock(row, group, [&](const Block& block) {
      largest.rows = std::max(largest.rows, block.rows);
      largest.keys = std::max(largest.keys, block.keys);
    });
  }
  return largest;
}

template <typename T>
std::unique_ptr<T[]> TileBuffer(int64_t count) {
  return std::make_unique_for_overwrite<T[]>(std::max<int64_t>(count, 1));
}

template <typename T>
void FastAttend(const Heads& heads, const TileSizes& s, const RowTiles& tiles, PartialAttention& partial) {
  const Block largest = Largest(tiles, s.group);
  at::parallel_for(0, s.items, 1, [&](int64_t begin, int64_t end) {
    const auto scores = TileBuffer<float>(largest.rows * largest.keys);
    const auto probabilities = TileBuffer<T>(largest.rows * largest.keys);
    const auto mixed = TileBuffer<float>(largest.rows * s.value_dim);
    const auto inverse_sum = TileBuffer<float>(largest.rows), log_sum_exp = TileBuffer<float>(largest.rows);
    for (int64_t item = begin; item < end; ++item) {
      const T* query = Data<T>(heads.query) + item * s.queries * s.group * s.dim;
      const T* key = Data<T>(heads.key) + item * s.keys * s.dim;
      const T* value = Data<T>(heads.value) + item * s.keys * s.value_dim;
      float* output = Data<float>(partial.output) + item * s.queries * s.group * s.value_dim;
      float* total = Data<float>(partial.log_sum_exp) + item * s.queries * s.group;
      ForEachBlock(tiles[item / s.kv_heads], s.group, [&](const Block& b) {
        MatMul(Operand<T>{query + b.query * s.dim, s.dim}, Operand<T>{key + b.key * s.dim, s.dim, true},
               {.m = b.rows, .n = b.keys, .k = s.dim, .stride = b.keys}, scores.get());
        if (b.soft_cap > 0) cpu::SoftCap(scores.get(), b.scores(), b.soft_cap / s.scale);
        cpu::CausalSoftmax(
            scores.get(),
            {.rows = b.rows, .keys = b.keys, .first = b.first, .group = s.group, .window = b.window, .scale = s.scale},
            probabilities.get(), {.inverse_sum = inverse_sum.get(), .log_sum_exp = log_sum_exp.get()});
        MatMul(Operand<T>{probabilities.get(), b.keys}, Operand<T>{value + b.key * s.value_dim, s.value_dim},
               {.m = b.rows, .n = s.value_dim, .k = b.keys, .stride = s.value_dim}, mixed.get());
        cpu::MergePartial({.rows = mixed.get(), .factor = inverse_sum.get(), .log_sum_exp = log_sum_exp.get()}, b.rows,
                          s.value_dim, output + b.query * s.value_dim, total + b.query);
      });
    }
  });
}

template <typename T>
struct TileBackwardScratch {
  TileBackwardScratch(const Block& b, const TileSizes&)
      : scores(TileBuffer<float>(b.rows * b.keys)),
        probability_gradient(TileBuffer<float>(b.rows * b.keys)),
        probabilities(TileBuffer<T>(b.rows * b.keys)),
        score_gradient(TileBuffer<T>(b.rows * b.keys)) {}
  std::unique_ptr<float[]> scores, probability_gradient;
  std::unique_ptr<T[]> probabilities, score_gradient;
};

template <typename T>
struct TileBackwardItem {
  const T *query, *key, *value, *output_gradient;
  const float *log_sum_exp, *dot;
  float *query_sum, *key_sum, *value_sum;
};

template <typename T>
void BlockBackward(const TileBackwardItem<T>& item, const TileSizes& s, const TileBackwardScratch<T>& scratch,
                   const Block& b) {
  const Operand<T> query{item.query + b.query * s.dim, s.dim}, key{item.key + b.key * s.dim, s.dim};
  const Operand<T> gradient{item.output_gradient + b.query * s.value_dim, s.value_dim};
  MatMul(query, {key.data, s.dim, true}, {.m = b.rows, .n = b.keys, .k = s.dim, .stride = b.keys},
         scratch.scores.get());
  MatMul(gradient, {item.value + b.key * s.value_dim, s.value_dim, true},
         {.m = b.rows, .n = b.keys, .k = s.value_dim, .stride = b.keys}, scratch.probability_gradient.get());
  const float cap = b.soft_cap / s.scale;  // of scores that are not scaled yet
  if (b.soft_cap > 0) cpu::SoftCap(scratch.scores.get(), b.scores(), cap);
  cpu::CausalSoftmaxBackward(
      {.scores = scratch.scores.get(),
       .probability_gradient = scratch.probability_gradient.get(),
       .log_sum_exp = item.log_sum_exp + b.query,
       .dot = item.dot + b.query},
      {.rows = b.rows, .keys = b.keys, .first = b.first, .group = s.group, .window = b.window, .scale = s.scale},
      scratch.probabilities.get(), scratch.score_gradient.get());
  if (b.soft_cap > 0) cpu::SoftCapBackward(scratch.scores.get(), b.scores(), cap, scratch.score_gradient.get());
  MatMul({scratch.probabilities.get(), b.keys, true}, gradient,
         {.m = b.keys, .n = s.value_dim, .k = b.rows, .stride = s.value_dim, .add = true},
         item.value_sum + b.key * s.value_dim);
  MatMul({scratch.score_gradient.get(), b.keys, true}, query,
         {.m = b.keys, .n = s.dim, .k = b.rows, .stride = s.dim, .add = true}, item.key_sum + b.key * s.dim);
  MatMul(Operand<T>{scratch.score_gradient.get(), b.keys}, key,
         {.m = b.rows, .n = s.dim, .k = b.keys, .stride = s.dim, .add = true}, item.query_sum + b.query * s.dim);
}

template <typename T>
void FastBackwardOfAttentionTiles(const Heads& heads, const TileSizes& s, const RowTiles& tiles,
                                  const AttendedQueries& queries, const Heads& sums) {
  const Block largest = Largest(tiles, s.group);
  const int64_t rows = s.queries * s.group;
  const at::Tensor& dot = queries.dot();
  at::parallel_for(0, s.items, 1, [&](int64_t begin, int64_t end) {
    const TileBackwardScratch<T> scratch(largest, s);
    for (int64_t i = begin; i < end; ++i) {
      const TileBackwardItem<T> item{.query = Data<T>(heads.query) + i * rows * s.dim,
                                     .key = Data<T>(heads.key) + i * s.keys * s.dim,
                                     .value = Data<T>(heads.value) + i * s.keys * s.value_dim,
                                     .output_gradient = Data<T>(queries.output_gradient) + i * rows * s.value_dim,
                                     .log_sum_exp = Data<float>(queries.log_sum_exp) + i * rows,
                                     .dot = Data<float>(dot) + i * rows,
                                     .query_sum = Data<float>(sums.query) + i * rows * s.dim,
                                     .key_sum = Data<float>(sums.key) + i * s.keys * s.dim,
                                     .value_sum = Data<float>(sums.value) + i * s.keys * s.value_dim};
      ForEachBlock(tiles[i / s.kv_heads], s.group, [&](const Block& b) { BlockBackward(item, s, scratch, b); });
    }
  });
}

// One head at a time.
void LoopsMerge(const PartialAttention& partial, const PartialAttention& part) {
  const int64_t dim = partial.output.size(-1), rows = part.log_sum_exp.numel() / partial.output.size(0);
  const at::Tensor ones = at::ones({rows}, at::kFloat);
  at::parallel_for(0, partial.output.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      cpu::MergePartial({.rows = Data<float>(part.output) + head * rows * dim,
                         .factor = Data<float>(ones),
                         .log_sum_exp = Data<float>(part.log_sum_exp) + head * rows},
                        rows, dim, Data<float>(partial.output) + head * partial.output.stride(0),
                        Data<float>(partial.log_sum_exp) + head * partial.log_sum_exp.stride(0));
    }
  });
}

void KernelMerge(const PartialAttention& partial, const PartialAttention& part) {
  const int64_t rows = part.log_sum_exp.numel();
  ascendc::AttentionMerge(PlaceOf(part.output), ElementOf(part.output), Data<float>(partial.output),
                          Data<float>(partial.log_sum_exp), part.output.data_ptr(), Data<float>(part.log_sum_exp),
                          {.rows = static_cast<uint64_t>(rows),
                           .columns = static_cast<uint64_t>(partial.output.size(-1)),
                           .run_rows = static_cast<uint64_t>(rows / partial.output.size(0)),
                           .run_stride = static_cast<uint64_t>(partial.log_sum_exp.stride(0))});
}

void ReferenceMerge(const PartialAttention& partial, const PartialAttention& part) {
  const at::Tensor merged = at::logaddexp(partial.log_sum_exp, part.log_sum_exp);
  partial.output.copy_(partial.output * (partial.log_sum_exp - merged).exp().unsqueeze(-1) +
                       part.output * (part.log_sum_exp - merged).exp().unsqueeze(-1));
  partial.log_sum_exp.copy_(merged);
}

// One tile of one row in fp32: all heads' queries, keys and values, and the scores, with masked ones at minus
// infinity.
struct PlainTile {
  at::Tensor query, key, value;  // [kv_heads, queries · group | keys, dim]
  at::Tensor scores;             // [kv_heads, queries · group, keys]
  at::Tensor slope;              // of the soft cap, the same shape; undefined: none

  PlainTile(const Heads& heads, const TileSizes& s, int64_t row, const AttentionTile& tile) {
    query = heads.query[row].narrow(1, tile.query, tile.queries).to(at::kFloat).flatten(1, 2);
    key = heads.key[row].narrow(1, tile.key, tile.keys).to(at::kFloat);
    value = heads.value[row].narrow(1, tile.key, tile.keys).to(at::kFloat);
    const auto index_options = heads.query.options().dtype(at::kLong);
    const at::Tensor last = at::arange(tile.queries, index_options).repeat_interleave(s.group) + tile.first;
    const at::Tensor keys = at::arange(tile.keys, index_options).unsqueeze(0);
    at::Tensor unseen = keys > last.unsqueeze(1);
    if (tile.window > 0) unseen = unseen.logical_or(keys <= last.unsqueeze(1) - tile.window);
    scores = at::bmm(query, key.transpose(1, 2)) * s.scale;
    if (tile.soft_cap > 0) {
      const at::Tensor part = (scores / tile.soft_cap).tanh();
      slope = 1 - part.square();
      scores = part * tile.soft_cap;
    }
    scores = scores.masked_fill(unseen, -std::numeric_limits<float>::infinity());
  }
};

void ReferenceAttend(const Heads& heads, const TileSizes& s, int64_t row, const AttentionTile& tile,
                     PartialAttention& partial) {
  const PlainTile plain(heads, s, row, tile);
  const auto part = [&](const at::Tensor& whole) { return whole[row].narrow(1, tile.query, tile.queries); };
  const PartialAttention own{part(partial.output), part(partial.log_sum_exp)};
  const at::Tensor sum = at::logsumexp(plain.scores, -1);  // [kv_heads, queries · group]
  const at::Tensor mixed = at::bmm((plain.scores - sum.unsqueeze(-1)).exp(), plain.value);
  MergePartial(own, {mixed.view(own.output.sizes()), sum.view(own.log_sum_exp.sizes())});
}

void ReferenceBackwardOfAttentionTiles(const Heads& heads, const TileSizes& s, int64_t row, const AttentionTile& tile,
                                       const AttendedQueries& queries, const Heads& sums) {
  const PlainTile plain(heads, s, row, tile);
  const auto rows = [&](const at::Tensor& whole) {
    return whole[row].narrow(1, tile.query, tile.queries).to(at::kFloat).flatten(1, 2);
  };
  const at::Tensor gradient = rows(queries.output_gradient);
  const at::Tensor p = (plain.scores - rows(queries.log_sum_exp).unsqueeze(-1)).exp();
  const at::Tensor dp = at::bmm(gradient, plain.value.transpose(1, 2));
  at::Tensor ds = p * (dp - rows(queries.dot()).unsqueeze(-1)) * s.scale;
  if (plain.slope.defined()) ds = ds * plain.slope;
  at::Tensor query = sums.query[row].narrow(1, tile.query, tile.queries);
  query += at::bmm(ds, plain.key).view(query.sizes());
  sums.key[row].narrow(1, tile.key, tile.keys) += at::bmm(ds.transpose(1, 2), plain.query);
  sums.value[row].narrow(1, tile.key, tile.keys) += at::bmm(p.transpose(1, 2), gradient);
}

void ReferenceTiles(const Heads& heads, double scale, const RowTiles& tiles, PartialAttention& partial) {
  const TileSizes s(heads, scale);
  for (size_t row = 0; row < tiles.size(); ++row) {
    for (const AttentionTile& tile : tiles[row]) ReferenceAttend(heads, s, static_cast<int64_t>(row), tile, partial);
  }
}

void ReferenceTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                            Heads& sums) {
  const TileSizes s(heads, scale);
  for (size_t row = 0; row < tiles.size(); ++row) {
    for (const AttentionTile& tile : tiles[row])
      ReferenceBackwardOfAttentionTiles(heads, s, static_cast<int64_t>(row), tile, queries, sums);
  }
}

void LoopTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                       Heads& sums) {
  const TileSizes s(heads, scale);
  ByType(heads.query, [&](auto type) { FastBackwardOfAttentionTiles<decltype(type)>(heads, s, tiles, queries, sums); });
}

std::string WhyNoLoopsOverTiles(const Heads& heads) {
  const bool dense = heads.query.is_contiguous() && heads.key.is_contiguous() && heads.value.is_contiguous();
  return Either(WhyNoLoops(heads.query), dense ? "" : "queries, keys or values are strided");
}

// The loops merge as they go; the others merge by attention_merge.
const ImplementationList<Heads, decltype(&ReferenceTiles), decltype(&ReferenceTilesBackward)> kTiles{
    "attention_tiles",
    {{"cpu", WhyNoLoopsOverTiles, AttendTilesByLoops, LoopTilesBackward},
     {"torch_npu", WhyNotVarLen, NpuTiles, NpuTilesBackward},
     {"aten", nullptr, ReferenceTiles, ReferenceTilesBackward}}};

// Those that take soft caps, under the same name and switch.
const ImplementationList<Heads, decltype(&ReferenceTiles), decltype(&ReferenceTilesBackward)> kCappedTiles{
    "attention_tiles",
    {{"cpu", WhyNoLoopsOverTiles, AttendTilesByLoops, LoopTilesBackward},
     {"aten", nullptr, ReferenceTiles, ReferenceTilesBackward}}};

const ImplementationList<at::Tensor, decltype(&ReferenceMerge)> kMerge{
    "attention_merge",
    {{"cpu", WhyNoLoops, LoopsMerge}, {"ascendc", WhyNoKernel, KernelMerge}, {"aten", nullptr, ReferenceMerge}}};

}  // namespace

const at::Tensor& AttendedQueries::dot() const {
  if (!dot_.defined()) dot_ = (output_gradient.to(at::kFloat) * output.to(at::kFloat)).sum(-1).contiguous();
  return dot_;
}

AttendedQueries AttendedQueries::HeadByHead() const { return {log_sum_exp, output_gradient.contiguous(), output}; }

PartialAttention EmptyPartial(const at::Tensor& query, int64_t value_dim) {
  std::vector<int64_t> shape = query.sizes().vec();
  shape.back() = value_dim;
  const auto options = query.options().dtype(at::kFloat);
  const at::Tensor output = at::zeros(shape, options);
  shape.pop_back();
  return {output, at::full(shape, -std::numeric_limits<double>::infinity(), options)};
}

void MergePartial(const PartialAttention& partial, const PartialAttention& given) {
  if (partial.log_sum_exp.numel() == 0) return;
  const PartialAttention part{given.output.contiguous(), given.log_sum_exp.contiguous()};
  TRIREME_CHECK(partial.output[0].is_contiguous() && partial.log_sum_exp[0].is_contiguous());
  kMerge.Choose(part.output).forward(partial, part);
}

void AttendTilesByLoops(const Heads& heads, double scale, const RowTiles& tiles, PartialAttention& partial) {
  TRIREME_CHECK(WhyNoLoopsOverTiles(heads).empty()) << WhyNoLoopsOverTiles(heads);
  const TileSizes s(heads, scale);
  ByType(heads.query, [&](auto type) { FastAttend<decltype(type)>(heads, s, tiles, partial); });
}

void AttendTiles(const Heads& heads, double scale, const RowTiles& tiles, PartialAttention& partial) {
  TRIREME_CHECK(static_cast<int64_t>(tiles.size()) == heads.query.size(0));
  (AreCapped(tiles) ? kCappedTiles : kTiles).Choose(heads).forward(heads, scale, tiles, partial);
}

void AttendTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                         Heads& sums) {
  TRIREME_CHECK(static_cast<int64_t>(tiles.size()) == heads.query.size(0));
  (AreCapped(tiles) ? kCappedTiles : kTiles).Choose(heads).backward(heads, scale, tiles, queries, sums);
}

namespace {

// Documents of at most 256 tokens in one row, as in a packed row; four heads of 128.
std::vector<BenchCase> BenchTiles(const BenchSize& s) {
  constexpr int64_t kDim = 128, kGroup = 4;
  const int64_t document = std::min<int64_t>(s.rows, 256);
  const Heads heads{BenchInput({1, 1, s.rows, kGroup, kDim}, s.type), BenchInput({1, 1, s.rows, kDim}, s.type),
                    BenchInput({1, 1, s.rows, kDim}, s.type)};
  RowTiles tiles(1);
  for (int64_t begin = 0; begin < s.rows; begin += document) {
    const int64_t size = std::min(document, s.rows - begin);
    tiles[0].push_back({.query = begin, .queries = size, .key = begin, .keys = size, .first = 0});
  }
  const auto bytes = static_cast<double>(3 * heads.query.nbytes() + 2 * heads.key.nbytes());
  return {{.forward_bytes = bytes,
           .run =
               [=] {
                 PartialAttention partial = EmptyPartial(heads.query, kDim);
                 AttendTiles(heads, 1 / std::sqrt(static_cast<double>(kDim)), tiles, partial);
                 return BenchCase::Tensors{};
               },
           .shape = {s.rows, kGroup, kDim}}};
}

// One head if the rows do not divide into four.
std::vector<BenchCase> BenchMerge(const BenchSize& s) {
  if (s.type != at::kFloat) return {};
  const int64_t heads = s.rows % 4 == 0 ? 4 : 1;
  const auto random = [&] {
    return PartialAttention{BenchInput({heads, s.rows / heads, 1, s.columns}, at::kFloat),
                            BenchInput({heads, s.rows / heads, 1}, at::kFloat)};
  };
  const PartialAttention partial = random(), part = random();
  return {{.forward_bytes = 3 * static_cast<double>(partial.output.nbytes()), .run = [=] {
             MergePartial(partial, part);
             return BenchCase::Tensors{};
           }}};
}

}  // namespace

Operator operators::attention_tiles() {
  return {.name = kTiles.op(),
          .summary = "attention in tiles: packed documents, sequences split over ranks",
          .implementations = kTiles.names(),
          .report =
              [](const at::Tensor& like) {
                std::vector<CaseReport> report = ReportHeadSizes(kTiles, like);
                for (CaseReport& line : ReportPacked(like)) report.push_back(std::move(line));
                return report;
              },
          .bench = BenchTiles};
}

Operator operators::attention_merge() {
  return {.name = kMerge.op(),
          .summary = "merges a partial attention result into the running one",
          .implementations = kMerge.names(),
          .report =
              [](const at::Tensor& like) {
                const bool fp32 = like.scalar_type() == at::kFloat;
                return fp32 ? std::vector{kMerge.Report("[any, any]", like)} : std::vector<CaseReport>{};
              },
          .bench = BenchMerge};
}

}  // namespace trireme
