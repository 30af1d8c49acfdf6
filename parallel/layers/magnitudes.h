// DoRA: the outputs of an adapted projection, scaled so that each row of W + scale · B A has a trained length: its
// magnitude. Lengths as they are count as constants in the backward pass, as in PEFT.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/comm/communicator.h"
#include "core/tensor/weight.h"
#include "ops/low_rank/low_rank.h"

namespace trireme {

struct MagnitudeBlock {               // of one projection in a fused matrix
  const Weight* magnitude = nullptr;  // [out of the projection]
  int64_t first_output = 0;           // its columns of y
};

// The length of each row of W with its adapters, [out] fp32. `inputs`: the ranks over which the rows are split;
// nullptr: they are whole.
at::Tensor RowLengths(const Weight& weight, const LowRankWeights& adapters, Communicator* inputs);

// y: [rows, out], the output of the matrix and its adapters, without a bias; it may be a rank's part of a sum. Blocks
// outlive the backward pass.
at::Tensor ScaleToMagnitudes(const at::Tensor& y, const std::vector<MagnitudeBlock>& blocks, const at::Tensor& lengths);

}  // namespace trireme
