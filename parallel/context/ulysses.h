// Ulysses: ranks that hold some tokens of all heads become ranks that hold all their tokens of some heads,
// and back. One all-to-all in each direction; each direction is the other's adjoint. No autograd here.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/comm/communicator.h"
#include "ops/qkv_norm_rope/qkv_norm_rope.h"
#include "parallel/context/context_plan.h"

namespace trireme {

struct ContextParallel {
  Communicator& group;  // cp
  int ring = 1;
  int ulysses = 1;

  ContextSplit split() const { return {ring, ulysses, group.rank()}; }
};

// Tensors [rows, heads, tokens, …] whose numbers of heads are divisible by U; the result is
// [rows, heads / U, U · tokens, …]. All have one dtype and travel in one message.
std::vector<at::Tensor> HeadsForTokens(const std::vector<at::Tensor>& tensors, const ContextParallel& parallel);
// The inverse.
std::vector<at::Tensor> TokensForHeads(const std::vector<at::Tensor>& tensors, const ContextParallel& parallel);

// Fewer key-value heads than ranks: each is repeated, and its query heads are split over the copies.
struct HeadCopies {
  HeadCopies(const Heads& heads, const ContextParallel& parallel);
  int64_t kv_heads, group, copies;

  // query: [rows, kv_heads, length, group, dim] to [rows, kv_heads · copies, length, group / copies, dim],
  // and the inverse.
  at::Tensor SplitQuery(const at::Tensor& query) const;
  at::Tensor JoinQuery(const at::Tensor& query) const;
  // key: [rows, kv_heads, length, dim] to [rows, kv_heads · copies, length, dim]; inverse: summed.
  at::Tensor Repeat(const at::Tensor& key) const;
  at::Tensor Sum(const at::Tensor& key) const;
};

}  // namespace trireme
