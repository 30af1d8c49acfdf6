#include "ops/attention/cpu_paged.h"

#include <algorithm>

#include "ops/attention/cpu.h"
#include "ops/cpu/lanes.h"
#include "ops/linear/cpu.h"

namespace trireme::cpu {
namespace {

// Values of up to four tokens, each with a head's probability of it.
constexpr int64_t kTokens = 4;
template <typename T>
struct WeightedValues {
  const T* value[kTokens];
  float weight[kTokens];
};

// sums[i] += Σ weight · value[i]
TRIREME_INLINE void AddValues(const WeightedValues<float>& in, int64_t size, float* sums) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    sums[i] += in.weight[0] * in.value[0][i] + in.weight[1] * in.value[1][i] + in.weight[2] * in.value[2][i] +
               in.weight[3] * in.value[3][i];
  }
}

// The sums of even elements come first, then those of odd ones.
TRIREME_INLINE void AddValues(const WeightedValues<Bf16>& in, int64_t size, float* sums) {
  const PairWord *a = PairsOf(in.value[0]), *b = PairsOf(in.value[1]), *c = PairsOf(in.value[2]),
                 *d = PairsOf(in.value[3]);
  float *even = sums, *odd = sums + (size + 1) / 2;
  const float* w = in.weight;
#pragma omp simd
  for (int64_t i = 0; i < size / 2; ++i) {
    even[i] += w[0] * Even(a[i]) + w[1] * Even(b[i]) + w[2] * Even(c[i]) + w[3] * Even(d[i]);
    odd[i] += w[0] * Odd(a[i]) + w[1] * Odd(b[i]) + w[2] * Odd(c[i]) + w[3] * Odd(d[i]);
  }
  if (size % 2 == 0) return;
  for (int64_t k = 0; k < kTokens; ++k) even[size / 2] += w[k] * Widen(in.value[k][size - 1]);
}

// A block's tokens [0, count) for all heads; probabilities: [heads, keys], of which the block has these.
template <typename T>
TRIREME_INLINE void AddBlock(const T* value, int64_t stride, int64_t count, const float* probabilities,
                             const QueryHeads& shape, float* sums) {
  for (int64_t token = 0; token < count; token += kTokens) {
    WeightedValues<T> four{};
    for (int64_t k = 0; k < kTokens; ++k) {  // beyond the last: the last again, of weight 0
      four.value[k] = value + std::min(token + k, count - 1) * stride;
    }
    for (int64_t head = 0; head < shape.heads; ++head) {
      for (int64_t k = 0; k < kTokens; ++k) {
        four.weight[k] = token + k < count ? probabilities[head * shape.keys + token + k] : 0.0f;
      }
      AddValues(four, shape.value_dim, sums + head * (shape.value_dim + 1));
    }
  }
}

TRIREME_CLONES void AddBlockOf(const float* value, int64_t stride, int64_t count, const float* probabilities,
                               const QueryHeads& shape, float* sums) {
  AddBlock(value, stride, count, probabilities, shape, sums);
}
TRIREME_CLONES void AddBlockOf(const Bf16* value, int64_t stride, int64_t count, const float* probabilities,
                               const QueryHeads& shape, float* sums) {
  AddBlock(value, stride, count, probabilities, shape, sums);
}

void ScaleInto(const float* sums, float factor, int64_t size, float* output) {
  for (int64_t i = 0; i < size; ++i) output[i] = sums[i] * factor;
}
void ScaleInto(const float* sums, float factor, int64_t size, Bf16* output) {
  const float *even = sums, *odd = sums + (size + 1) / 2;
  for (int64_t i = 0; i < size; ++i) output[i] = NarrowResult<Bf16>((i % 2 == 0 ? even[i / 2] : odd[i / 2]) * factor);
}

// Calls work(first token, block, tokens) for each block of the row.
template <typename Work>
void ForEachBlockOf(const int32_t* table, int64_t block_size, int64_t keys, const Work& work) {
  for (int64_t first = 0; first < keys; first += block_size) {
    work(first, static_cast<int64_t>(table[first / block_size]), std::min(block_size, keys - first));
  }
}

const float* PackQuery(const float* query, const LinearShape& /*shape*/, PagedMemory& /*memory*/) { return query; }
const float* PackQuery(const Bf16* query, const LinearShape& shape, PagedMemory& memory) {
  memory.query.resize(static_cast<size_t>(shape.rows * shape.in));
  PackRows(query, shape, {0, shape.rows}, memory.query.data());
  return memory.query.data();
}

template <typename T>
void Attend(const T* query, const HeadBlocks<T>& blocks, const QueryHeads& shape, PagedMemory& memory, T* output) {
  const auto heads = static_cast<size_t>(shape.heads), keys = static_cast<size_t>(shape.keys);
  memory.scores.resize(heads * keys);
  memory.probabilities.resize(heads * keys);
  memory.inverse.resize(2 * heads);
  memory.sums.assign(heads * static_cast<size_t>(shape.value_dim + 1), 0.0f);
  const LinearShape dots{.rows = shape.heads, .in = shape.dim, .out = shape.keys};
  const float* packed = PackQuery(query, dots, memory);
  ForEachBlockOf(blocks.table, blocks.block_size, shape.keys, [&](int64_t first, int64_t block, int64_t count) {
    DotColumns(packed, blocks.key + block * blocks.key_step, dots, {0, count}, memory.scores.data() + first);
  });
  CausalSoftmax(
      memory.scores.data(),
      {.rows = shape.heads, .keys = shape.keys, .first = shape.keys - 1, .group = shape.heads, .scale = shape.scale},
      memory.probabilities.data(),
      {.inverse_sum = memory.inverse.data(), .log_sum_exp = memory.inverse.data() + heads});
  ForEachBlockOf(blocks.table, blocks.block_size, shape.keys, [&](int64_t first, int64_t block, int64_t count) {
    AddBlockOf(blocks.value + block * blocks.value_step, blocks.value_stride, count,
               memory.probabilities.data() + first, shape, memory.sums.data());
  });
  for (int64_t head = 0; head < shape.heads; ++head) {
    ScaleInto(memory.sums.data() + head * (shape.value_dim + 1), memory.inverse[static_cast<size_t>(head)],
              shape.value_dim, output + head * shape.value_dim);
  }
}

}  // namespace

void AttendBlocks(const float* query, const HeadBlocks<float>& blocks, const QueryHeads& shape, PagedMemory& memory,
                  float* output) {
  Attend(query, blocks, shape, memory, output);
}
void AttendBlocks(const Bf16* query, const HeadBlocks<Bf16>& blocks, const QueryHeads& shape, PagedMemory& memory,
                  Bf16* output) {
  Attend(query, blocks, shape, memory, output);
}

}  // namespace trireme::cpu
