// RMSNorm beyond ops/rms_norm: over a dim that tensor-parallel ranks split, each of which has some of the elements, and
// all of them share one root mean square; or with weights to which something is added.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/comm/communicator.h"
#include "core/tensor/weight.h"

namespace trireme {

struct WideNorm {
  int64_t width = 0;   // elements of all ranks, each counted once
  int64_t copies = 1;  // ranks that have the same elements
  double eps = 1e-6;
  double offset = 0;  // added to the weight
};

// x: [..., elements of this rank]; weight: [elements of this rank], which outlives the backward pass. Computed in fp32
// and rounded once. Collective, both ways; nullptr: this rank has all elements.
at::Tensor WideRmsNorm(const at::Tensor& x, const Weight& weight, const WideNorm& norm, Communicator* group);

// The same over a whole dim; of an offset of 0 it is RmsNorm.
at::Tensor OffsetRmsNorm(const at::Tensor& x, const Weight& weight, double eps, double offset);

}  // namespace trireme
