#include "ops/linear/infer_linear.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "ops/dequantise/dequantise.h"
#include "ops/element_types.h"
#include "ops/fp8_linear/fp8_linear.h"
#include "ops/linear/cpu.h"
#include "ops/operator.h"

namespace trireme {
namespace {

struct InferCase {
  const at::Tensor& x;       // [rows, in]
  const at::Tensor& weight;  // [out, in]
  const at::Tensor& bias;    // [out], or undefined
};

// A step has a row of x for each row that decodes: reading the weights once for all of them is what takes the time.
constexpr int64_t kFewRows = 16;

at::Tensor ReferenceInfer(const InferCase& c) {
  return c.bias.defined() ? at::addmm(c.bias, c.x, c.weight.t()) : at::mm(c.x, c.weight.t());
}

// The rows in the order of the loops; `memory` holds them if that is not theirs.
const float* Packed(const at::Tensor& x, const cpu::LinearShape& shape, at::Tensor& memory) {
  if (x.scalar_type() == at::kFloat) return Data<float>(x);
  memory = at::empty({shape.rows * shape.in}, at::kFloat);
  at::parallel_for(0, shape.rows, GrainOfRows(shape.in), [&](int64_t begin, int64_t end) {
    cpu::PackRows(Data<cpu::Bf16>(x), shape, {begin, end}, Data<float>(memory));
  });
  return Data<float>(memory);
}

at::Tensor LoopsInfer(const InferCase& c) {
  const cpu::LinearShape shape{c.x.size(0), c.x.size(1), c.weight.size(0)};
  const at::Tensor x = c.x.contiguous(), y = at::empty({shape.rows, shape.out}, x.options());
  if (y.numel() == 0) return y;
  at::Tensor memory;
  const float* packed = Packed(x, shape, memory);
  ByType(x, [&](auto type) {
    using T = decltype(type);
    const T* bias = c.bias.defined() ? Data<T>(c.bias) : nullptr;
    at::parallel_for(0, shape.out, GrainOfRows(shape.in), [&](int64_t begin, int64_t end) {
      cpu::LinearColumns(packed, Data<T>(c.weight), bias, shape, {begin, end}, Data<T>(y));
    });
  });
  return y;
}

std::string WhyNoInferLoops(const InferCase& c) {
  if (std::string why = Either(WhyNoLoops(c.x), WhyNotAlike(c.x, c.weight)); !why.empty()) return why;
  if (c.bias.defined() && c.bias.scalar_type() != c.x.scalar_type()) return "the bias has another dtype";
  if (c.x.size(0) <= kFewRows) return "";
  if (c.x.scalar_type() == at::kFloat) return Concat("more than ", kFewRows, " rows; libtorch's gemm is faster");
  return cpu::HasBf16Products() ? Concat("more than ", kFewRows, " rows; this processor has matrix units for them")
                                : "";
}

const ImplementationList<InferCase, decltype(&ReferenceInfer)> kInferLinear{
    "infer_linear", {{"cpu", WhyNoInferLoops, LoopsInfer}, {"aten", nullptr, ReferenceInfer}}};

// Up to 8 rows and a square matrix, as in a step of generation.
std::vector<BenchCase> BenchInferLinear(const BenchSize& s) {
  const int64_t rows = std::min<int64_t>(s.rows, 8), width = std::min<int64_t>(s.columns, 4096);
  const auto weight = BenchWeight({width, width}, s.type);
  const at::Tensor x = BenchInput({rows, width}, s.type);
  return {{.forward_bytes = static_cast<double>(weight->value.nbytes() + 2 * x.nbytes()),
           .run =
               [=] {
                 InferLinear(x, *weight);
                 return BenchCase::Tensors{};
               },
           .shape = {rows, width, width}}};
}

CaseReport ReportRows(const at::Tensor& like, int64_t rows) {
  const at::Tensor x = at::empty({rows, 0}, like.options()), weight = at::empty({0, 0}, like.options());
  return kInferLinear.Report(Concat("[", rows, ", any]"), {x, weight, at::Tensor()});
}

}  // namespace

Operator operators::infer_linear() {
  return {
      .name = kInferLinear.op(),
      .summary = "a linear layer in generation, without a gradient",
      .implementations = kInferLinear.names(),
      .report = [](const at::Tensor& like) { return std::vector{ReportRows(like, 1), ReportRows(like, kFewRows + 1)}; },
      .bench = BenchInferLinear};
}

at::Tensor InferLinear(const at::Tensor& x, const Weight& weight, const Weight* bias, const SplitContraction* split) {
  const at::Tensor offset = bias == nullptr ? at::Tensor() : bias->value;
  if (IsFp8(weight)) return Fp8Linear(x, Fp8MatrixOf(weight, split), offset, split);
  const at::Tensor matrix = MatrixOf(weight);
  const InferCase given{x, matrix, offset};
  return kInferLinear.Choose(given).forward(given);
}

}  // namespace trireme
