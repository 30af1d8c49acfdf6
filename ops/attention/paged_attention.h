// Attention over a KV cache in blocks: each row has a table of the blocks that hold its keys and values, in
// order. The new tokens of all rows stand side by side in one row of the batch: any mix of prompts, parts of
// prompts and single tokens, without padding between them. Rows are computed as by cached_attention.h, whose
// implementations it uses. Which blocks a row has is decided elsewhere. Forward only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "ops/qkv_norm_rope/qkv_norm_rope.h"

namespace trireme {

struct PagedRow {
  int64_t past = 0;             // cached tokens
  int64_t fresh = 0;            // new tokens, after those of the rows before it
  std::vector<int32_t> blocks;  // for all of them
};

// Rows of one new token come first, so that one call computes all of them.
struct PagedRows {
  int64_t block_size = 0;  // tokens per block
  int64_t blocks = 0;      // of the cache
  std::vector<PagedRow> rows = {};
  std::vector<int32_t> first_blocks = {};  // of all rows with cached tokens, whether they have new ones or not
  // Where launches must not depend on the rows' lengths: the most keys that a row of one new token may have; 0: the
  // longest row's.
  int64_t most_keys = 0;
};

// The cache of one layer; undefined at first.
struct PagedKeyValues {
  at::Tensor key;    // [blocks, kv_heads, block_size, head_dim]
  at::Tensor value;  // [blocks, kv_heads, block_size, value_dim]; undefined where values are part of the keys
};

// What all layers of a pass share.
struct PagedScratch {
  at::Tensor key, value;  // memory in which the host lays rows out
  // On a device, of one pass:
  std::map<size_t, at::Tensor> tables, gathered;  // by the group's first row: read in place, or copied out
  at::Tensor slots;                               // [new tokens] where each is stored: block · block_size + offset

  void Begin() {
    tables.clear();
    gathered.clear();
    slots = at::Tensor();
  }
};

// Stores the new keys and values in the rows' blocks, then lets each new token attend to its row up to
// itself, with a window to the last `window` tokens only, with a soft cap by scores of cap · tanh(score / cap), with
// sinks ([heads], sinks.h) that take their part in the softmax. heads: of one row [1, kv_heads, tokens, …] with all new
// tokens, and perhaps padding after them. An undefined heads.value means the first `value_dim` elements of each key,
// which are stored once. Returns [tokens, heads · value_dim]; zero at padding.
at::Tensor PagedAttention(const Heads& heads, int64_t value_dim, double scale, const PagedRows& rows,
                          PagedKeyValues& cache, PagedScratch& scratch, int64_t window = 0, double soft_cap = 0,
                          const at::Tensor& sinks = {});

}  // namespace trireme
