// The cases of `bench ops`: for each operator its inputs at a size, what runs it, and how many bytes it must
// move. Times nothing: bench_ops.cc does.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/choose.h"

namespace trireme {

// What is timed: the operator, the same by ATen, and how many bytes each direction must move at least.
struct OperatorCase {
  using Tensors = std::vector<at::Tensor>;

  std::string op;
  double forward_bytes = 0, backward_bytes = 0;
  at::Tensor typed;                 // says which version would run; the input where there is a backward pass
  std::function<Tensors()> run;     // results that have a backward pass, or none
  std::function<Tensors()> aten{};  // the same as `run` where empty, by the reference
  Against against{};
  std::vector<int64_t> shape{};  // where it is not rows and columns
};

// One after the other, for all at once want much memory.
void ForEachOperatorCase(int64_t rows, int64_t columns, at::ScalarType type,
                         const std::function<void(const OperatorCase&)>& visit);

}  // namespace trireme
