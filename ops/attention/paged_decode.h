// One new token in each of several rows, over the blocks where the rows' keys and values are: no copy of them
// is made. The operator and its list are in paged_attention.cc.
#pragma once

#include <string>

#include "ops/attention/paged_attention.h"

namespace trireme {

// Rows of a pass that one call computes: of one new token each, or a single one with more.
struct PagedGroup {
  const Heads& heads;  // as in PagedAttention; the rows' tokens begin at `begin`
  int64_t begin = 0;
  size_t first_row = 0;  // of the pass
  int64_t value_dim = 0;
  double scale = 1;
  int64_t block_size = 0;
  at::ArrayRef<PagedRow> rows;  // their new keys and values are stored
  const PagedKeyValues& cache;
  PagedScratch& scratch;
  int64_t window = 0;     // as in PagedAttention
  double soft_cap = 0;    // as in PagedAttention
  int64_t most_keys = 0;  // as in PagedRows
  at::Tensor sinks = {};  // as in PagedAttention
};

// [rows, columns] the rows' blocks, int32, made once for all layers of a pass; no token attends to what is
// beyond a row's own.
at::Tensor TableOnDevice(const PagedGroup& c, int64_t columns);

// Each returns [rows, heads · value_dim].
std::string WhyNoDecodeLoops(const PagedGroup& c);
at::Tensor DecodeByLoops(const PagedGroup& c);
// By torch_npu's operator for generation, with the rows' tables.
std::string WhyNotNpuDecode(const PagedGroup& c);
at::Tensor NpuDecode(const PagedGroup& c);

}  // namespace trireme
