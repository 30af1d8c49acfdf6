// Generation's kernels for a GPU: new keys and values into the cache's blocks, and attention of one new token
// in each row over them. No lists: ops/attention/paged_attention.cc has the operator.
#pragma once

#include <string>

#include "ops/attention/paged_decode.h"

namespace trireme {

// Empty: the kernel puts the tokens of `fresh` [1, kv_heads, tokens, dim] into blocks of that size.
std::string WhyNoStoreKernel(const Heads& fresh, const PagedKeyValues& cache, int64_t block_size);
// slots: [tokens] block · block_size + offset in it.
void StoreByKernel(const Heads& fresh, const PagedKeyValues& cache, int64_t block_size, const at::Tensor& slots);

// [rows, 1 + columns] int32: each row's number of keys with its new one, and its blocks; zero beyond those.
at::Tensor DecodeTable(at::ArrayRef<PagedRow> rows, int64_t columns);
std::string WhyNoDecodeKernel(const PagedGroup& c);
at::Tensor DecodeByKernel(const PagedGroup& c);

}  // namespace trireme
