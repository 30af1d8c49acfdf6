// y = x Wᵀ and the gradient of x for a weight in e4m3 (model.fp8: rows): x is rounded to e4m3 by rows, a scale for each
// token, W has a scale for each output channel. The gradient of y takes W's scales in before it is rounded, so that
// both directions multiply by the same codes. All scales are powers of two. Sums are in fp32; on Hopper the tensor
// cores keep fewer bits of them. A frozen weight is stored in codes; one that is trained is cast for every product, so
// that there is no second copy to keep in step with it. No gradient of the weight: that is linear's, of what was not
// rounded.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/tensor/weight.h"
#include "ops/fp8_linear/fp8_matrix.h"
#include "ops/fp8_linear/split_contraction.h"

namespace trireme {

inline bool IsStoredInFp8(const Weight& weight) {
  return weight.packed && weight.packed->parts().storage.kind == PackedStorage::Kind::kFp8;
}
// Whether its products are in e4m3.
inline bool IsFp8(const Weight& weight) { return weight.cast_to_fp8 || IsStoredInFp8(weight); }

// As a product takes it: stored, or cast now.
Fp8Matrix Fp8MatrixOf(const Weight& weight, const SplitContraction* split);
// The same again for the gradient of x, of a product that had these scales: what is not stored is cast by who
// multiplies.
Fp8Matrix Fp8MatrixAgain(const Weight& weight, const at::Tensor& scales);

// x: [rows, in], bias: [out] or undefined; split: nullptr: rows are whole.
at::Tensor Fp8Linear(const at::Tensor& x, const Fp8Matrix& weight, const at::Tensor& bias,
                     const SplitContraction* split);
// y_gradient: [rows, out], contiguous; returns [rows, in].
at::Tensor Fp8InputGradient(const at::Tensor& y_gradient, const Fp8Matrix& weight, const SplitContraction* split);

// x as products see it: each row rounded to e4m3 under its scale. For the reference and for tests.
at::Tensor RoundedToFp8(const at::Tensor& x, const SplitContraction::Largest& largest = {});

}  // namespace trireme
