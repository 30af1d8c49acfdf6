// The bias of a linear layer's rows, and its gradient, by loops on a CPU and by ATen elsewhere. No autograd here.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// x · matrixᵀ + bias. x: [rows, in], matrix: [out, in], bias: [out]; of bf16 on a CPU the product is rounded before the
// bias is added.
at::Tensor ProductWithBias(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias);

// sum += the sum of the rows of x. x: [rows, size], sum: [size] fp32.
void AddSumOfRows(const at::Tensor& x, at::Tensor& sum);

}  // namespace trireme
