// The squared norm of a gradient, for clipping.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trireme {

// Over all of them; each fp32, contiguous, all on one device. On the cpu summed in double over fixed
// pieces: the same for any number of threads. NaN and infinity propagate.
double SumOfSquares(const std::vector<at::Tensor>& values);
inline double SumOfSquares(const at::Tensor& values) { return SumOfSquares(std::vector{values}); }
// The same as a tensor of one element where the values are, so that nobody waits: fp64, on npu fp32.
at::Tensor SumOfSquaresTensor(const std::vector<at::Tensor>& values, at::Device device);

}  // namespace trireme
