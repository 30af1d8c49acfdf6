// The square of a gradient's norm, from which a step's clipping is decided.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trireme {

// Of all of them together; each fp32, contiguous, all on one device. On the cpu summed in double over fixed
// pieces: the same for any number of threads. A NaN or an infinity comes through.
double SumOfSquares(const std::vector<at::Tensor>& values);
inline double SumOfSquares(const at::Tensor& values) { return SumOfSquares(std::vector{values}); }

}  // namespace trireme
