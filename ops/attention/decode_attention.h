// Generation's kernels for a GPU: new keys and values into the cache, and attention of one new token in each
// row. No lists: ops/attention/cached_attention.cc has the operator.
#pragma once

#include <string>

#include "ops/attention/cached_attention.h"

namespace trireme {

// Empty: the kernel puts them into the cache, which has room.
std::string WhyNoAppendKernel(const Heads& fresh, const KeyValues& cache);
void AppendByKernel(const Heads& fresh, const CachedRows& rows, const KeyValues& cache);

std::string WhyNotDecode(const Heads& heads);
at::Tensor DecodeAttention(const Heads& heads, double scale, const CachedRows& rows);

}  // namespace trireme
