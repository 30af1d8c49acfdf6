// SplitContraction: where ranks split what a product sums over, each of them has a part of every row, and the largest
// magnitude of a row is that of all parts. Operators do not communicate: who knows the ranks gives them this.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace trireme {

struct SplitContraction {
  using Largest = std::function<void(const at::Tensor& of_rows)>;  // [rows] fp32, replaced by that of all ranks
  Largest inputs, outputs;  // of y = x Wᵀ: where x, where the gradient of y is split; empty: rows are whole
};

}  // namespace trireme
