// The matrix of a weight, also of one that is packed in 4 or 8 bits: value of the code times scale of its block, in
// fp32, then rounded to the type of the computation. Nothing that was decoded is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/tensor/weight.h"

namespace trireme {

// The value, or what the packed weight decodes to: for one product, never to be kept. On the host its memory is used
// again.
at::Tensor MatrixOf(const Weight& weight);
// The same of one matrix of a stack: the others stay packed.
at::Tensor MatrixOf(const Weight& weight, int64_t index);
// What a packed weight decodes to, the same way.
at::Tensor DecodedMatrix(const PackedWeight& packed);

}  // namespace trireme
