// The host side of the kernels between a fused q|k|v row and attention's layout
// (ops/qkv_norm_rope/qkv_norm_rope.h).
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct HeadShape {
  uint64_t tokens, length, heads, kv_heads, dim, half;
  float eps;
};

// Why the kernel does not support heads of this size; null if it does.
const char* WhyNotHeads(const HeadShape& shape);

struct HeadArgs {
  const void *qkv, *query_norm, *key_norm;  // a null norm: heads are rotated without one
  const float *cosine, *sine;               // [tokens, half]
  void *query, *key, *value;                // results, or their gradients
  float* scales;                            // [tokens, heads + kv_heads]
};
void SplitHeads(const KernelPlace& place, Element element, const HeadShape& shape, const HeadArgs& args);

// norm_sums: [blocks, 2, dim], query and key: one partial sum per block.
uint32_t SplitHeadsBlocks(const KernelPlace& place, const HeadShape& shape);
void SplitHeadsBackward(const KernelPlace& place, Element element, const HeadShape& shape, const HeadArgs& args,
                        void* qkv_gradient, float* norm_sums);

}  // namespace trireme::ascendc
