// Attention of new tokens over keys and values cached from one generation step to the next. Rows may have
// different numbers of cached tokens, and get different numbers of new ones. Forward only; no autograd here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/qkv_norm_rope/qkv_norm_rope.h"

namespace trireme {

// The cache of one layer; undefined at first. Grows with the rows.
struct KeyValues {
  at::Tensor key;    // [rows, kv_heads, capacity, head_dim]
  at::Tensor value;  // [rows, kv_heads, capacity, value_dim]
};

struct CachedRows {
  std::vector<int64_t> past;   // [rows] cached tokens
  std::vector<int64_t> fresh;  // [rows] new tokens; the rest of the row is padding
  int64_t window = 0;          // keys that a token attends to at most, its own among them; 0: any number
  double soft_cap = 0;         // of the scores: cap · tanh(score / cap); 0: none
  at::Tensor sinks = {};       // [kv_heads, group] (sinks.h); undefined: none

  int64_t longest() const;  // the most tokens of any row, past and fresh
};

// Appends the new keys and values to those of each row, then lets each new token attend to its row up to
// itself. Returns [rows · length, heads · value_dim], the layout that the output projection reads; values at
// padding are meaningless.
at::Tensor CachedAttention(const Heads& heads, double scale, const CachedRows& rows, KeyValues& cache);

// The same where the new keys and values already follow those of the past: [rows, kv_heads, capacity, …].
// Returns [rows, kv_heads, length, group, value_dim].
at::Tensor AttendCached(const Heads& all, double scale, const CachedRows& rows);

}  // namespace trireme
