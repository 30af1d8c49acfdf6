// DeltaStates: what a Gated DeltaNet layer keeps of each row in generation: the state after its tokens, and the last
// inputs of its convolution. A row is known by its first cache block, which no other row has while it is there: such
// models share no prefixes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "ops/attention/paged_attention.h"

namespace trireme {

class DeltaStates {
 public:
  struct Rows {
    at::Tensor recent;  // [rows, taps - 1, channels]
    at::Tensor states;  // [rows, value_heads, key_dim, value_dim] fp32
  };

  // Of a step's rows, in their order; of rows that begin, zeros as in `blank`, which has one row.
  Rows Take(const PagedRows& rows, const Rows& blank);
  void Keep(const PagedRows& rows, const Rows& after);

  size_t size() const { return by_block_.size(); }

 private:
  std::map<int32_t, Rows> by_block_;
};

}  // namespace trireme
