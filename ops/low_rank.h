// y += scale · (x Aᵀ) Bᵀ: low-rank pairs beside the projections of a fused weight, which read the same input,
// or beside those of a stack of experts. Knows no layout: a rank's part of the weights gives its part of the
// sum.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/base/random.h"
#include "core/tensor/weight.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"

namespace trireme {

struct LowRankBlock {         // of one projection
  const Weight* b = nullptr;  // [out, rank] or [experts, out, rank]
  double scale = 1;           // of the product
  int64_t first_rank = 0;     // its rows of A
  int64_t first_output = 0;   // its columns of y
};

struct LowRankWeights {
  const Weight* a = nullptr;  // [ranks, in] or [experts, ranks, in]: of all blocks, one below the other
  std::vector<LowRankBlock> blocks;
};

// Which inputs of the pairs are dropped: by the row's identity and the input's number alone, so that any
// layout and a second forward pass drop the same. The others are scaled by 1 / (1 - rate).
struct InputDropout {
  double rate = 0;
  RandomStream random;
  at::Tensor rows;          // [rows] int64, in host memory: who they are
  int64_t first_input = 0;  // number of x's first column, where x has only some
};

struct LowRankInput {
  LinearInput x;                                     // [rows, in]
  GroupEnds ends = {};                               // of a stack: the rows of each expert
  std::shared_ptr<const InputDropout> dropout = {};  // nothing: none
};

// base: [rows, out], fresh from a product: its memory becomes the result's. `pairs` and its weights outlive
// the backward pass.
at::Tensor AddLowRank(const at::Tensor& base, const LowRankInput& input, const LowRankWeights& pairs);

// [rows, columns] of 0 and 1 / (1 - rate), in the given type.
at::Tensor DropoutMask(const InputDropout& dropout, int64_t columns, const at::TensorOptions& options);

}  // namespace trireme
