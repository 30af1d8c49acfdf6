// fp8_linear on a GPU with FP8: rows are cast by a kernel of our own, the products are cuBLASLt's, called by ATen, or
// of few rows, as in a step of generation, a kernel of our own.
#pragma once

#include <string>

#include "ops/fp8_linear/fp8_matrix.h"

namespace trireme {

std::string WhyNoCudaFp8(const Fp8Case& c);
at::Tensor CudaFp8Linear(const Fp8Case& c);
std::string WhyNoCudaFewRows(const Fp8Case& c);
at::Tensor CudaFewRows(const Fp8Case& c);
// The codes of the weight are turned first, for every product, or cast turned: keeping both forms would double the
// memory.
at::Tensor CudaFp8InputGradient(const Fp8Case& c);
Fp8Matrix CudaCastToFp8(const at::Tensor& matrix, const SplitContraction::Largest& largest);

}  // namespace trireme
