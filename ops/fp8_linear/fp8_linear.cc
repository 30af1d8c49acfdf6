#include "ops/fp8_linear/fp8_linear.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/packing/e4m3.h"
#include "ops/fp8_linear/cuda.h"
#include "ops/fp8_linear/fp8_matrix.h"
#include "ops/operator.h"

namespace trireme {
namespace {

// Of rows with these largest magnitudes, [rows]: Fp8RowScale, by ATen.
at::Tensor ScalesOf(const at::Tensor& largest) {
  constexpr int kBias = 127, kExponentOf448 = 9;  // 448 = 0.875 · 2^9
  const auto [fraction, exponent] = at::frexp(largest.clamp_min(kLeastFp8Row));
  const at::Tensor power = exponent.sub(kExponentOf448).add_(fraction.gt(0.875F)).add_(kBias);
  return power.to(at::kInt).mul_(1 << 23).view(at::kFloat);
}

at::Tensor CodesOf(const at::Tensor& rows, const at::Tensor& scales) {
  return rows.to(at::kFloat).div(scales.unsqueeze(1)).to(at::kFloat8_e4m3fn);
}

// What the codes mean, in the type of the rows.
at::Tensor DecodedFp8(const Fp8Case& c) {
  const Fp8Matrix& matrix = c.matrix;
  const at::Tensor codes =
      matrix.codes.defined() ? matrix.codes.view(at::kFloat8_e4m3fn) : CodesOf(matrix.source, matrix.scales);
  return codes.to(at::kFloat).mul_(matrix.scales.unsqueeze(1)).to(c.rows.scalar_type());
}

at::Tensor ReferenceLinear(const Fp8Case& c) {
  const at::Tensor rounded = RoundedToFp8(c.rows, c.largest);
  const at::Tensor y = at::mm(rounded, DecodedFp8(c).t());
  return c.bias.defined() ? y.add_(c.bias) : y;
}

at::Tensor ReferenceInputGradient(const Fp8Case& c) {
  const at::Tensor scales = c.matrix.scales.to(c.rows.scalar_type());
  const at::Tensor rounded = RoundedToFp8(c.rows * scales, c.largest);
  return at::mm(rounded.div_(scales), DecodedFp8(c));
}

at::Tensor LargestOfRows(const at::Tensor& rows, const SplitContraction::Largest& largest) {
  at::Tensor of_rows = rows.abs().amax(1).to(at::kFloat);
  if (largest) largest(of_rows);
  return of_rows;
}

Fp8Matrix ReferenceCast(const at::Tensor& matrix, const SplitContraction::Largest& largest) {
  const at::Tensor scales = ScalesOf(LargestOfRows(matrix, largest));
  return {.codes = CodesOf(matrix, scales).view(at::kByte), .scales = scales};
}

// Beside the product: the other direction's, and how a matrix that is stored otherwise becomes codes.
struct BesideProduct {
  at::Tensor (*input_gradient)(const Fp8Case&) = nullptr;
  Fp8Matrix (*cast)(const at::Tensor& matrix, const SplitContraction::Largest& largest) = nullptr;
};

const ImplementationList<Fp8Case, decltype(&ReferenceLinear), BesideProduct> kFp8Linear{
    "fp8_linear",
    {{"cuda", WhyNoCudaFewRows, CudaFewRows, {CudaFp8InputGradient, CudaCastToFp8}},
     {"cublas", WhyNoCudaFp8, CudaFp8Linear, {CudaFp8InputGradient, CudaCastToFp8}},
     {"aten", nullptr, ReferenceLinear, {ReferenceInputGradient, ReferenceCast}}}};

SplitContraction::Largest InputsOf(const SplitContraction* split) {
  return split == nullptr ? SplitContraction::Largest{} : split->inputs;
}

// A square matrix.
std::vector<BenchCase> BenchFp8Linear(const BenchSize& s) {
  if (s.type == at::kHalf) return {};
  const int64_t width = std::min<int64_t>(s.columns, 1024) / 16 * 16;
  if (width == 0) return {};
  const at::Tensor x = BenchInput({s.rows, width}, s.type);
  const Fp8Matrix weight{.codes = at::randint(0x70, {width, width}, x.options().dtype(at::kByte)),
                         .scales = at::ones({width}, x.options().dtype(at::kFloat))};
  return {{.forward_bytes = static_cast<double>(2 * x.nbytes() + weight.codes.nbytes()),
           .run =
               [=] {
                 Fp8Linear(x, weight, at::Tensor(), nullptr);
                 return BenchCase::Tensors{};
               },
           .shape = {s.rows, width, width}}};
}

// A product of a step of generation, and casting a weight.
std::vector<CaseReport> ReportFp8Linear(const at::Tensor& like) {
  if (like.scalar_type() == at::kHalf) return {};
  const Fp8Matrix weight{.codes = at::empty({0, 0}, like.options().dtype(at::kByte)), .scales = {}};
  const at::Tensor row = at::empty({1, 0}, like.options());
  return {kFp8Linear.Report("[1, any]", {row, weight}), kFp8Linear.Report("[any, any]", {like, Fp8Matrix{}})};
}

}  // namespace

Operator operators::fp8_linear() {
  return {.name = kFp8Linear.op(),
          .summary = "a linear layer in e4m3, a scale for each token and output channel",
          .implementations = kFp8Linear.names(),
          .report = ReportFp8Linear,
          .bench = BenchFp8Linear};
}

at::Tensor RoundedToFp8(const at::Tensor& x, const SplitContraction::Largest& largest) {
  const at::NoGradGuard no_graph;
  const at::Tensor scales = ScalesOf(LargestOfRows(x, largest));
  return CodesOf(x, scales).to(at::kFloat).mul_(scales.unsqueeze(1)).to(x.scalar_type());
}

// Ranks that split the inputs of a matrix have a part of each of its rows.
Fp8Matrix Fp8MatrixOf(const Weight& weight, const SplitContraction* split) {
  if (!weight.cast_to_fp8) return Fp8MatrixOf(*weight.packed);
  const at::NoGradGuard no_graph;
  return kFp8Linear.Choose({weight.value, Fp8Matrix{}}).backward.cast(weight.value, InputsOf(split));
}

Fp8Matrix Fp8MatrixAgain(const Weight& weight, const at::Tensor& scales) {
  if (!weight.cast_to_fp8) return Fp8MatrixOf(*weight.packed);
  return {.codes = {}, .scales = scales, .source = weight.value};
}

at::Tensor Fp8Linear(const at::Tensor& x, const Fp8Matrix& weight, const at::Tensor& bias,
                     const SplitContraction* split) {
  const at::NoGradGuard no_graph;
  const Fp8Case given{x, weight, bias, InputsOf(split)};
  return kFp8Linear.Choose(given).forward(given);
}

at::Tensor Fp8InputGradient(const at::Tensor& y_gradient, const Fp8Matrix& weight, const SplitContraction* split) {
  const at::NoGradGuard no_graph;
  const Fp8Case given{y_gradient, weight, {}, split == nullptr ? SplitContraction::Largest{} : split->outputs};
  return kFp8Linear.Choose(given).backward.input_gradient(given);
}

}  // namespace trireme
