// Ulysses: ranks that hold some tokens of all heads become ranks that hold all their tokens of some heads,
// and back. One all-to-all each way; each way is the other's adjoint. No autograd here.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/comm/communicator.h"
#include "ops/heads.h"
#include "parallel/context/context_plan.h"

namespace trireme {

struct ContextParallel {
  Communicator& group;  // cp
  int ring = 1;
  int ulysses = 1;

  ContextSplit split() const { return {ring, ulysses, group.rank()}; }
};

// Tensors of [rows, heads, tokens, …], each with a number of heads that divides; the result has [rows, heads
// / U, U · tokens, …]. All travel in one message and are of one type.
std::vector<at::Tensor> HeadsForTokens(const std::vector<at::Tensor>& tensors,
                                       const ContextParallel& parallel);
// The way back.
std::vector<at::Tensor> TokensForHeads(const std::vector<at::Tensor>& tensors,
                                       const ContextParallel& parallel);

// Fewer key-value heads than ranks: each is repeated, and its queries are shared out among the copies.
struct HeadCopies {
  HeadCopies(const Heads& heads, const ContextParallel& parallel);
  int64_t kv_heads, group, copies;

  // query: [rows, kv_heads, length, group, dim] to [rows, kv_heads · copies, length, group / copies, dim],
  // and back.
  at::Tensor SplitQuery(const at::Tensor& query) const;
  at::Tensor JoinQuery(const at::Tensor& query) const;
  // key: [rows, kv_heads, length, dim] to [rows, kv_heads · copies, length, dim]; back: summed.
  at::Tensor Repeat(const at::Tensor& key) const;
  at::Tensor Sum(const at::Tensor& key) const;
};

}  // namespace trireme
