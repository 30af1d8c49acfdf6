// The square of a gradient's norm, from which a step's clipping is decided.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// values: fp32, contiguous. Summed in double over fixed pieces: the same for any number of threads. A NaN or
// an infinity comes through.
double SumOfSquares(const at::Tensor& values);

}  // namespace trireme
