#include "ops/attention/attention_blocks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/attention/cpu.h"
#include "ops/element_types.h"
#include "ops/matmul.h"

namespace trireme {
namespace {

struct BlockSizes {
  int64_t kv_heads, length, group, dim;
  int64_t items;  // rows · kv_heads: each runs on one thread, so sums do not depend on the threads
  int64_t block;  // positions per block
  float scale;

  int64_t block_rows() const { return block * group; }
  int64_t width() const { return kv_heads * group * dim; }  // elements of a token's output
  int64_t query_size() const { return length * group * dim; }
  int64_t key_size() const { return length * dim; }
  // Where the item's group starts in [rows · length, heads · head_dim].
  int64_t OutputOffset(int64_t item) const {
    return item / kv_heads * length * width() + item % kv_heads * group * dim;
  }
};

// Blocks are as large as a core's own cache can hold their scores; long rows get fewer query rows per block.
int64_t BlockOf(int64_t length, int64_t group) {
  constexpr int64_t kRows = 384, kScores = int64_t{1} << 20;
  const int64_t fitting = std::min(kRows, std::max<int64_t>(kScores / std::max<int64_t>(length, 1), 32));
  return std::clamp<int64_t>(fitting / group, 1, std::max<int64_t>(length, 1));
}

BlockSizes SizesOf(const Heads& heads) {
  const auto query = heads.query.sizes();
  return {.kv_heads = query[1],
          .length = query[2],
          .group = query[3],
          .dim = query[4],
          .items = query[0] * query[1],
          .block = BlockOf(query[2], query[3]),
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(query[4])))};
}

template <typename T>
std::unique_ptr<T[]> BlockBuffer(int64_t count) {
  return std::make_unique_for_overwrite<T[]>(count);
}

template <typename T>
struct ForwardScratch {
  explicit ForwardScratch(const BlockSizes& s)
      : scores(BlockBuffer<float>(s.block_rows() * s.length)),
        probabilities(BlockBuffer<T>(s.block_rows() * s.length)),
        mixed(BlockBuffer<float>(s.block_rows() * s.dim)),
        inverse_sum(BlockBuffer<float>(s.block_rows())) {}
  std::unique_ptr<float[]> scores;
  std::unique_ptr<T[]> probabilities;
  std::unique_ptr<float[]> mixed, inverse_sum;
};

template <typename T>
struct Item {
  const T *query, *key, *value;
};

template <typename T>
Item<T> ItemOf(const Heads& heads, const BlockSizes& s, int64_t item) {
  return {Data<T>(heads.query) + item * s.query_size(), Data<T>(heads.key) + item * s.key_size(),
          Data<T>(heads.value) + item * s.key_size()};
}

template <typename T>
void Attend(const Item<T>& item, const BlockSizes& s, const ForwardScratch<T>& scratch, T* output, float* log_sum_exp) {
  for (int64_t begin = 0; begin < s.length; begin += s.block) {
    const int64_t positions = std::min(s.block, s.length - begin), keys = begin + positions;
    const int64_t rows = positions * s.group;
    MatMul(Operand<T>{item.query + begin * s.group * s.dim, s.dim}, Operand<T>{item.key, s.dim, true},
           {.m = rows, .n = keys, .k = s.dim, .stride = keys}, scratch.scores.get());
    cpu::CausalSoftmax(scratch.scores.get(),
                       {.rows = rows, .keys = keys, .first = begin, .group = s.group, .scale = s.scale},
                       scratch.probabilities.get(),
                       {.inverse_sum = scratch.inverse_sum.get(), .log_sum_exp = log_sum_exp + begin * s.group});
    MatMul(Operand<T>{scratch.probabilities.get(), keys}, Operand<T>{item.value, s.dim},
           {.m = rows, .n = s.dim, .k = keys, .stride = s.dim}, scratch.mixed.get());
    cpu::ScatterScaled(scratch.mixed.get(), scratch.inverse_sum.get(),
                       {.positions = positions, .group = s.group, .dim = s.dim, .stride = s.width()},
                       output + begin * s.width());
  }
}

template <typename T>
struct BlockBackwardScratch {
  explicit BlockBackwardScratch(const BlockSizes& s)
      : scores(BlockBuffer<float>(s.block_rows() * s.length)),
        probability_gradient(BlockBuffer<float>(s.block_rows() * s.length)),
        probabilities(BlockBuffer<T>(s.block_rows() * s.length)),
        score_gradient(BlockBuffer<T>(s.block_rows() * s.length)),
        output_gradient(BlockBuffer<T>(s.block_rows() * s.dim)),
        query_gradient(BlockBuffer<float>(s.block_rows() * s.dim)),
        key_gradient(BlockBuffer<float>(s.key_size())),
        value_gradient(BlockBuffer<float>(s.key_size())),
        dot(BlockBuffer<float>(s.block_rows())) {}
  std::unique_ptr<float[]> scores, probability_gradient;
  std::unique_ptr<T[]> probabilities, score_gradient, output_gradient;
  std::unique_ptr<float[]> query_gradient, key_gradient, value_gradient, dot;
};

template <typename T>
struct BlockBackwardItem {
  Item<T> in;
  const T *output, *output_gradient;
  const float* log_sum_exp;
  T *query_gradient, *key_gradient, *value_gradient;
};

template <typename T>
void AttendBackwardBlock(const BlockBackwardItem<T>& item, const BlockSizes& s, const BlockBackwardScratch<T>& scratch,
                         int64_t begin) {
  const int64_t positions = std::min(s.block, s.length - begin), keys = begin + positions;
  const int64_t rows = positions * s.group, first = begin * s.group * s.dim;
  const Operand<T> query{item.in.query + first, s.dim}, gradient{scratch.output_gradient.get(), s.dim};
  cpu::GatherWithDot(item.output_gradient + begin * s.width(), item.output + begin * s.width(),
                     {.positions = positions, .group = s.group, .dim = s.dim, .stride = s.width()},
                     scratch.output_gradient.get(), scratch.dot.get());
  const MatMulShape scores{.m = rows, .n = keys, .k = s.dim, .stride = keys};
  MatMul(query, {item.in.key, s.dim, true}, scores, scratch.scores.get());
  MatMul(gradient, {item.in.value, s.dim, true}, scores, scratch.probability_gradient.get());
  cpu::CausalSoftmaxBackward({.scores = scratch.scores.get(),
                              .probability_gradient = scratch.probability_gradient.get(),
                              .log_sum_exp = item.log_sum_exp + begin * s.group,
                              .dot = scratch.dot.get()},
                             {.rows = rows, .keys = keys, .first = begin, .group = s.group, .scale = s.scale},
                             scratch.probabilities.get(), scratch.score_gradient.get());
  const MatMulShape sums{.m = keys, .n = s.dim, .k = rows, .stride = s.dim, .add = true};
  MatMul({scratch.probabilities.get(), keys, true}, gradient, sums, scratch.value_gradient.get());
  MatMul({scratch.score_gradient.get(), keys, true}, query, sums, scratch.key_gradient.get());
  MatMul(Operand<T>{scratch.score_gradient.get(), keys}, Operand<T>{item.in.key, s.dim},
         {.m = rows, .n = s.dim, .k = keys, .stride = s.dim}, scratch.query_gradient.get());
  cpu::NarrowInto(scratch.query_gradient.get(), rows * s.dim, item.query_gradient + first);
}

template <typename T>
void AttendBackward(const BlockBackwardItem<T>& item, const BlockSizes& s, const BlockBackwardScratch<T>& scratch) {
  std::fill_n(scratch.key_gradient.get(), s.key_size(), 0.0f);
  std::fill_n(scratch.value_gradient.get(), s.key_size(), 0.0f);
  for (int64_t begin = 0; begin < s.length; begin += s.block) {
    AttendBackwardBlock(item, s, scratch, begin);
  }
  cpu::NarrowInto(scratch.key_gradient.get(), s.key_size(), item.key_gradient);
  cpu::NarrowInto(scratch.value_gradient.get(), s.key_size(), item.value_gradient);
}

}  // namespace

AttentionResult BlockedAttention(const Heads& heads) {
  const BlockSizes s = SizesOf(heads);
  const auto options = heads.query.options();
  AttentionResult result{at::empty({heads.query.size(0) * s.length, s.width()}, options),
                         at::empty({s.items, s.length * s.group}, options.dtype(at::kFloat))};
  ByType(heads.query, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, s.items, 1, [&](int64_t begin, int64_t end) {
      const ForwardScratch<T> scratch(s);
      for (int64_t item = begin; item < end; ++item) {
        Attend<T>(ItemOf<T>(heads, s, item), s, scratch, Data<T>(result.output) + s.OutputOffset(item),
                  Data<float>(result.log_sum_exp) + item * s.length * s.group);
      }
    });
  });
  return result;
}

Heads BlockedAttentionBackward(const Heads& heads, const AttentionResult& result, const at::Tensor& output_gradient) {
  const BlockSizes s = SizesOf(heads);
  Heads gradients{at::empty_like(heads.query), at::empty_like(heads.key), at::empty_like(heads.value)};
  ByType(heads.query, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, s.items, 1, [&](int64_t begin, int64_t end) {
      const BlockBackwardScratch<T> scratch(s);
      for (int64_t i = begin; i < end; ++i) {
        AttendBackward<T>({.in = ItemOf<T>(heads, s, i),
                           .output = Data<T>(result.output) + s.OutputOffset(i),
                           .output_gradient = Data<T>(output_gradient) + s.OutputOffset(i),
                           .log_sum_exp = Data<float>(result.log_sum_exp) + i * s.length * s.group,
                           .query_gradient = Data<T>(gradients.query) + i * s.query_size(),
                           .key_gradient = Data<T>(gradients.key) + i * s.key_size(),
                           .value_gradient = Data<T>(gradients.value) + i * s.key_size()},
                          s, scratch);
      }
    });
  });
  return gradients;
}

}  // namespace trireme
