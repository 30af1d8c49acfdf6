#include "ops/attention/two_way_blocks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/error.h"
#include "ops/attention/cpu.h"
#include "ops/choose.h"
#include "ops/element_types.h"
#include "ops/matmul.h"

namespace trireme {
namespace {

struct TwoWaySizes {
  int64_t heads, length, dim;
  int64_t most = 0;         // patches of the largest tile
  int64_t most_rows = 0;    // of any tile's steps
  int64_t most_scores = 0;  // likewise
  float scale;

  TwoWaySizes(const Heads& given, const std::vector<AttentionTile>& tiles)
      : heads(given.query.size(1)),
        length(given.query.size(2)),
        dim(given.query.size(4)),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)))) {
    TRIREME_CHECK(given.query.size(0) == 1 && given.query.size(3) == 1) << "rows or groups of heads";
    for (const AttentionTile& tile : tiles) {
      most = std::max(most, tile.keys);
      most_rows = std::max(most_rows, Step(tile.keys));
      most_scores = std::max(most_scores, Step(tile.keys) * tile.keys);
    }
  }

  int64_t width() const { return heads * dim; }
  // Query rows at a time, so that their scores stay in a core's own cache.
  static int64_t Step(int64_t keys) { return std::min(keys, std::clamp<int64_t>((int64_t{1} << 18) / keys, 32, 384)); }
};

template <typename T>
std::unique_ptr<T[]> TwoWayScratch(int64_t count) {
  return std::make_unique_for_overwrite<T[]>(std::max<int64_t>(count, 1));
}

// All keys are attended to.
cpu::ScoreBlock AllSeen(int64_t rows, int64_t keys, float scale) {
  return {.rows = rows, .keys = keys, .first = keys, .scale = scale};
}

// Each head of each tile is computed by one thread.
template <typename Work>
void ForEachHeadOfTiles(int64_t heads, const std::vector<AttentionTile>& tiles, const Work& work) {
  const auto count = static_cast<int64_t>(tiles.size());
  at::parallel_for(0, heads * count, 1, [&](int64_t begin, int64_t end) { work(begin, end, count); });
}

template <typename T>
struct TwoWayForward {
  const TwoWaySizes& s;
  std::unique_ptr<float[]> scores = TwoWayScratch<float>(s.most_scores);
  std::unique_ptr<T[]> probabilities = TwoWayScratch<T>(s.most_scores);
  std::unique_ptr<float[]> mixed = TwoWayScratch<float>(s.most_rows * s.dim);
  std::unique_ptr<float[]> inverse_sum = TwoWayScratch<float>(s.most_rows);

  void Run(const Heads& heads, const AttentionTile& tile, int64_t head, const AttentionResult& result) const {
    const int64_t keys = tile.keys, first = head * s.length + tile.key, step = s.Step(keys);
    const T* query = Data<T>(heads.query) + first * s.dim;
    const T* key = Data<T>(heads.key) + first * s.dim;
    const T* value = Data<T>(heads.value) + first * s.dim;
    for (int64_t begin = 0; begin < keys; begin += step) {
      const int64_t rows = std::min(step, keys - begin);
      MatMul(Operand<T>{query + begin * s.dim, s.dim}, Operand<T>{key, s.dim, true},
             {.m = rows, .n = keys, .k = s.dim, .stride = keys}, scores.get());
      cpu::CausalSoftmax(
          scores.get(), AllSeen(rows, keys, s.scale), probabilities.get(),
          {.inverse_sum = inverse_sum.get(), .log_sum_exp = Data<float>(result.log_sum_exp) + first + begin});
      MatMul(Operand<T>{probabilities.get(), keys}, Operand<T>{value, s.dim},
             {.m = rows, .n = s.dim, .k = keys, .stride = s.dim}, mixed.get());
      cpu::ScatterScaled(mixed.get(), inverse_sum.get(), {.positions = rows, .dim = s.dim, .stride = s.width()},
                         Data<T>(result.output) + (tile.query + begin) * s.width() + head * s.dim);
    }
  }
};

template <typename T>
struct TwoWayBackward {
  const TwoWaySizes& s;
  std::unique_ptr<float[]> scores = TwoWayScratch<float>(s.most_scores);
  std::unique_ptr<float[]> probability_gradient = TwoWayScratch<float>(s.most_scores);
  std::unique_ptr<T[]> probabilities = TwoWayScratch<T>(s.most_scores);
  std::unique_ptr<T[]> score_gradient = TwoWayScratch<T>(s.most_scores);
  std::unique_ptr<T[]> gradient_rows = TwoWayScratch<T>(s.most_rows * s.dim);
  std::unique_ptr<float[]> query_gradient = TwoWayScratch<float>(s.most_rows * s.dim);
  std::unique_ptr<float[]> dot = TwoWayScratch<float>(s.most_rows);
  std::unique_ptr<float[]> key_sum = TwoWayScratch<float>(s.most * s.dim);
  std::unique_ptr<float[]> value_sum = TwoWayScratch<float>(s.most * s.dim);

  void Run(const Heads& heads, const AttentionTile& tile, int64_t head, const AttentionResult& result,
           const at::Tensor& output_gradient, const Heads& gradients) const {
    const int64_t first = (head * s.length + tile.key) * s.dim, step = s.Step(tile.keys);
    for (int64_t begin = 0; begin < tile.keys; begin += step) {
      const int64_t rows = std::min(step, tile.keys - begin), place = (tile.query + begin) * s.width() + head * s.dim;
      cpu::GatherWithDot(Data<T>(output_gradient) + place, Data<T>(result.output) + place,
                         {.positions = rows, .dim = s.dim, .stride = s.width()}, gradient_rows.get(), dot.get());
      Block(heads, first, begin, rows, tile.keys, Data<float>(result.log_sum_exp) + first / s.dim);
      cpu::NarrowInto(query_gradient.get(), rows * s.dim, Data<T>(gradients.query) + first + begin * s.dim);
    }
    cpu::NarrowInto(key_sum.get(), tile.keys * s.dim, Data<T>(gradients.key) + first);
    cpu::NarrowInto(value_sum.get(), tile.keys * s.dim, Data<T>(gradients.value) + first);
  }

  // Of `rows` queries from `begin` of the tile whose elements start at `first`. The first block overwrites the sums.
  void Block(const Heads& heads, int64_t first, int64_t begin, int64_t rows, int64_t keys,
             const float* log_sum_exp) const {
    const Operand<T> query{Data<T>(heads.query) + first + begin * s.dim, s.dim}, gradient{gradient_rows.get(), s.dim};
    const T *key = Data<T>(heads.key) + first, *value = Data<T>(heads.value) + first;
    const MatMulShape to_scores{.m = rows, .n = keys, .k = s.dim, .stride = keys};
    MatMul(query, {key, s.dim, true}, to_scores, scores.get());
    MatMul(gradient, {value, s.dim, true}, to_scores, probability_gradient.get());
    cpu::CausalSoftmaxBackward({.scores = scores.get(),
                                .probability_gradient = probability_gradient.get(),
                                .log_sum_exp = log_sum_exp + begin,
                                .dot = dot.get()},
                               AllSeen(rows, keys, s.scale), probabilities.get(), score_gradient.get());
    const MatMulShape sums{.m = keys, .n = s.dim, .k = rows, .stride = s.dim, .add = begin > 0};
    MatMul({probabilities.get(), keys, true}, gradient, sums, value_sum.get());
    MatMul({score_gradient.get(), keys, true}, query, sums, key_sum.get());
    MatMul(Operand<T>{score_gradient.get(), keys}, Operand<T>{key, s.dim},
           {.m = rows, .n = s.dim, .k = keys, .stride = s.dim}, query_gradient.get());
  }
};

// Whether each tile attends to itself alone, all of it, and tiles follow each other from 0 to `length`.
bool AreWhole(const RowTiles& tiles, int64_t length) {
  if (tiles.size() != 1) return false;
  int64_t next = 0;
  for (const AttentionTile& tile : tiles.front()) {
    const bool itself = tile.query == next && tile.key == next && tile.queries == tile.keys && tile.keys > 0;
    if (!itself || tile.first < tile.keys - 1 || tile.window > 0 || tile.soft_cap > 0) return false;
    next += tile.keys;
  }
  return next == length;
}

}  // namespace

std::string WhyNoTwoWayBlocks(const Heads& heads, const RowTiles& tiles) {
  const char* wanted = WantedImplementation();
  const bool listed = wanted != nullptr && (std::string(wanted) == "cpu" || std::string(wanted) == "aten");
  std::string why = Either(WhyPassedOver("attention_tiles", "cpu", listed), WhyNoLoops(heads.query));
  if (!why.empty()) return why;
  if (heads.query.size(0) != 1 || heads.query.size(3) != 1) return "several rows, or heads that share a key head";
  return AreWhole(tiles, heads.query.size(2)) ? "" : "tiles that do not attend to all of themselves";
}

AttentionResult TwoWayBlocks(const Heads& heads, const std::vector<AttentionTile>& tiles) {
  const TwoWaySizes s(heads, tiles);
  const auto options = heads.query.options();
  AttentionResult result{at::empty({s.length, s.width()}, options),
                         at::empty({s.heads, s.length}, options.dtype(at::kFloat))};
  ByType(heads.query, [&](auto type) {
    ForEachHeadOfTiles(s.heads, tiles, [&](int64_t begin, int64_t end, int64_t count) {
      const TwoWayForward<decltype(type)> forward{s};
      for (int64_t i = begin; i < end; ++i)
        forward.Run(heads, tiles[static_cast<size_t>(i % count)], i / count, result);
    });
  });
  return result;
}

Heads TwoWayBlocksBackward(const Heads& heads, const std::vector<AttentionTile>& tiles, const AttentionResult& result,
                           const at::Tensor& output_gradient) {
  const TwoWaySizes s(heads, tiles);
  Heads gradients{at::empty_like(heads.query), at::empty_like(heads.key), at::empty_like(heads.value)};
  ByType(heads.query, [&](auto type) {
    ForEachHeadOfTiles(s.heads, tiles, [&](int64_t begin, int64_t end, int64_t count) {
      const TwoWayBackward<decltype(type)> backward{s};
      for (int64_t i = begin; i < end; ++i) {
        backward.Run(heads, tiles[static_cast<size_t>(i % count)], i / count, result, output_gradient, gradients);
      }
    });
  });
  return gradients;
}

}  // namespace trireme
