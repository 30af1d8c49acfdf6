// Token by token, from a fused q|k|v row to attention's layout and back: RMSNorm of the query and key heads
// if a norm is given, rotary embedding of the first 2 · half elements (first half with second half).
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

constexpr int64_t kLargestHead = 512;  // elements: scratch for one head is on the stack

// Why the loops do not support such heads; null if they do. half: rotated pairs.
inline const char* WhyNotHeads(int64_t dim, int64_t half) {
  if (dim > kLargestHead) return "heads are larger than 512 elements";
  return dim % 2 != 0 || half % 2 != 0 ? "a head has an odd number of elements or of rotated pairs" : nullptr;
}

struct HeadLayout {
  int64_t length = 0;  // tokens per row
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t dim = 0;
  int64_t half = 0;  // rotated pairs per head
  float eps = 0;
};

// A null norm: heads are rotated without one, and the scales are not touched.
template <typename T>
struct HeadNorms {
  const T* query = nullptr;  // [dim]
  const T* key = nullptr;
};

struct HeadTable {
  const float* cosine = nullptr;  // [tokens, half]
  const float* sine = nullptr;
};

// Query: [rows, kv_heads, length, group, dim]; key, value: [rows, kv_heads, length, dim].
template <typename T>
struct SplitTensors {
  T *query, *key, *value;
};

// scales: [tokens, heads + kv_heads], 1 / root mean square of each normalised head.
void SplitHeads(const float* qkv, const HeadLayout& layout, const HeadNorms<float>& norms, const HeadTable& table,
                Rows tokens, const SplitTensors<float>& out, float* scales);
void SplitHeads(const Bf16* qkv, const HeadLayout& layout, const HeadNorms<Bf16>& norms, const HeadTable& table,
                Rows tokens, const SplitTensors<Bf16>& out, float* scales);

// Sums over the tokens of this call; null if there is no norm.
struct HeadNormSums {
  float* query = nullptr;  // [dim]
  float* key = nullptr;
};

// `gradients` have the layout of SplitHeads' results; writes all rows of qkv_gradient.
void SplitHeadsBackward(const float* qkv, const SplitTensors<const float>& gradients, const HeadLayout& layout,
                        const HeadNorms<float>& norms, const HeadTable& table, Rows tokens, const float* scales,
                        float* qkv_gradient, const HeadNormSums& sums);
void SplitHeadsBackward(const Bf16* qkv, const SplitTensors<const Bf16>& gradients, const HeadLayout& layout,
                        const HeadNorms<Bf16>& norms, const HeadTable& table, Rows tokens, const float* scales,
                        Bf16* qkv_gradient, const HeadNormSums& sums);

}  // namespace trireme::cpu
