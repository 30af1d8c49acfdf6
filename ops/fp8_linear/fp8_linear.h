// y = x Wᵀ and the gradient of x for a frozen weight in e4m3 (model.fp8: rows): x is rounded to e4m3 by rows, a scale
// for each token, W has a scale for each output channel. The gradient of y takes W's scales in before it is rounded, so
// that both directions multiply by the same codes. All scales are powers of two. Sums are in fp32; on Hopper the tensor
// cores keep fewer bits of them. No gradient of the weight.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/fp8_linear/split_contraction.h"

namespace trireme {

inline bool IsFp8(const Weight& weight) {
  return weight.packed && weight.packed->parts().storage.kind == PackedStorage::Kind::kFp8;
}

// x: [rows, in], bias: [out] or undefined; split: nullptr: rows are whole.
at::Tensor Fp8Linear(const at::Tensor& x, const PackedWeight& weight, const at::Tensor& bias,
                     const SplitContraction* split);
// y_gradient: [rows, out], contiguous; returns [rows, in].
at::Tensor Fp8InputGradient(const at::Tensor& y_gradient, const PackedWeight& weight, const SplitContraction* split);

// x as products see it: each row rounded to e4m3 under its scale. For the reference and for tests.
at::Tensor RoundedToFp8(const at::Tensor& x, const SplitContraction::Largest& largest = {});

}  // namespace trireme
