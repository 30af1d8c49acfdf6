// An operator as users see it, generated from its list of implementations (choose.h): its name, what it
// computes, which implementation supports what, and how it is measured. An operator's own file has the
// function of its name that returns this; a line in operator_names.h adds it to `check --ops`, ops.off,
// `bench ops`, help and the table of docs/kernels.md. Runs nothing itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/weight.h"
#include "ops/choose.h"
#include "ops/operator_names.h"

namespace trireme {

struct BenchSize {
  int64_t rows = 0, columns = 0;
  at::ScalarType type = at::kFloat;
};

// What `bench ops` times: the operator, the same by ATen, and the minimum number of bytes that each direction
// must move.
struct BenchCase {
  using Tensors = std::vector<at::Tensor>;

  double forward_bytes = 0, backward_bytes = 0;
  at::Tensor input{};               // of the backward pass, if there is one
  std::function<Tensors()> run{};   // returns results that have a backward pass, or none
  std::function<Tensors()> aten{};  // if empty: `run` by the reference
  std::vector<int64_t> shape{};     // if it is not rows and columns
  bool gradient = false;            // `run` is itself the backward pass
  std::string variant{};            // if an operator has several
};

struct Operator {
  std::string name;
  std::string summary;                       // what it computes, in a line
  std::vector<std::string> implementations;  // fastest first, the reference last

  // What would run for tensors such as `like` (empty; of a device and a dtype): the usual shapes, and those
  // that some implementation declines. Empty if the operator does not support this dtype.
  std::function<std::vector<CaseReport>(const at::Tensor& like)> report;
  // Empty if the operator does not support this dtype.
  std::function<std::vector<BenchCase>(const BenchSize&)> bench;
};

// In the order of operator_names.h.
const std::vector<Operator>& Operators();

namespace operators {
#define TRIREME_DECLARE(op) Operator op();
TRIREME_OPERATORS(TRIREME_DECLARE)
#undef TRIREME_DECLARE
}  // namespace operators

// Random inputs of bench cases.
at::Tensor BenchInput(at::IntArrayRef shape, at::ScalarType type);
at::Tensor BenchLeaf(at::IntArrayRef shape, at::ScalarType type);  // with a gradient
std::shared_ptr<Weight> BenchWeight(at::IntArrayRef shape, at::ScalarType type);

}  // namespace trireme
