// The list of operators, from the lines of operator_names.h.
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "ops/operator.h"

namespace trireme {

const std::vector<Operator>& Operators() {
#define CALL(op) operators::op(),
  static const std::vector<Operator> list = {TRIREME_OPERATORS(CALL)};
#undef CALL
  return list;
}

at::Tensor BenchInput(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape, at::kFloat).to(type); }
at::Tensor BenchLeaf(at::IntArrayRef shape, at::ScalarType type) {
  return BenchInput(shape, type).set_requires_grad(true);
}
std::shared_ptr<Weight> BenchWeight(at::IntArrayRef shape, at::ScalarType type) {
  return std::make_shared<Weight>(Weight{"weight", BenchInput(shape, type), at::zeros(shape, at::kFloat)});
}

}  // namespace trireme
