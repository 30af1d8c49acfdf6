// Attention of new tokens over keys and values that are kept from one step of a generation to the next. Rows
// may have seen different numbers of tokens, and get different numbers of new ones. Forward only; no autograd
// here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/heads.h"

namespace trireme {

// What one layer keeps; undefined at first. Grows as rows do.
struct KeyValues {
  at::Tensor key;    // [rows, kv_heads, capacity, head_dim]
  at::Tensor value;  // [rows, kv_heads, capacity, value_dim]
};

struct CachedRows {
  std::vector<int64_t> past;   // [rows] tokens that are kept
  std::vector<int64_t> fresh;  // [rows] new tokens; what stands behind them in the row is padding

  int64_t longest() const;  // past and fresh of any row
};

// Keeps the new keys and values behind those of each row, then lets each new token see its row up to itself.
// Returns [rows · length, heads · value_dim], as the output projection reads it; what stands there for
// padding means nothing.
at::Tensor CachedAttention(const Heads& heads, double scale, const CachedRows& rows, KeyValues& kept);

}  // namespace trireme
