// Attention of one new token's query heads over the keys and values of its row, read from the cache's blocks
// where they are. Sums are in fp32; a row's result does not depend on other rows, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

// A key-value head's blocks, and a row's table of them.
template <typename T>
struct HeadBlocks {
  const T* key;                          // of the cache's first block: [block_size, dim]
  const T* value;                        // the same: [block_size, value_stride]
  int64_t key_step = 0, value_step = 0;  // elements from one block to the next
  int64_t value_stride = 0;              // elements from one token to the next
  const int32_t* table;
  int64_t block_size = 0;
};

struct QueryHeads {
  int64_t heads = 0;  // that share the key-value head
  int64_t dim = 0, value_dim = 0;
  int64_t keys = 0;  // of the row, the new token's included
  float scale = 1;
};

// Memory that calls reuse.
struct PagedMemory {
  std::vector<float> query, scores, probabilities, sums, inverse;
};

// query: [heads, dim]; output: [heads, value_dim].
void AttendBlocks(const float* query, const HeadBlocks<float>& blocks, const QueryHeads& shape, PagedMemory& memory,
                  float* output);
void AttendBlocks(const Bf16* query, const HeadBlocks<Bf16>& blocks, const QueryHeads& shape, PagedMemory& memory,
                  Bf16* output);

}  // namespace trireme::cpu
