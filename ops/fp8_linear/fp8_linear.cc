#include "ops/fp8_linear/fp8_linear.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/packing/e4m3.h"
#include "ops/dequantise/dequantise.h"
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

at::Tensor Matrix(const PackedWeight& weight) { return DecodedMatrix(weight); }

at::Tensor ReferenceLinear(const Fp8Case& c) {
  const at::Tensor rounded = RoundedToFp8(c.rows, c.largest);
  const at::Tensor y = at::mm(rounded, Matrix(c.weight).t());
  return c.bias.defined() ? y.add_(c.bias) : y;
}

at::Tensor ReferenceInputGradient(const Fp8Case& c) {
  const at::Tensor scales = Fp8ScalesOf(c.weight).to(c.rows.scalar_type());
  const at::Tensor rounded = RoundedToFp8(c.rows * scales, c.largest);
  return at::mm(rounded.div_(scales), Matrix(c.weight));
}

struct InputGradient {
  at::Tensor (*function)(const Fp8Case&) = nullptr;
};

const ImplementationList<Fp8Case, decltype(&ReferenceLinear), InputGradient> kFp8Linear{
    "fp8_linear",
    {{"cublas", WhyNoCudaFp8, CudaFp8Linear, {CudaFp8InputGradient}},
     {"aten", nullptr, ReferenceLinear, {ReferenceInputGradient}}}};

std::shared_ptr<PackedWeight> RandomFp8(int64_t rows, int64_t columns, const at::TensorOptions& options) {
  const PackedPart part{.name = "weight",
                        .matrix_rows = rows,
                        .matrix_columns = columns,
                        .rows = rows,
                        .columns = columns,
                        .local_stride = columns};
  auto weight = std::make_shared<PackedWeight>(PlaceParts(kFp8Storage, {part}), Shape{rows, columns},
                                               c10::typeMetaToScalarType(options.dtype()));
  weight->bytes = at::randint(0x70, {weight->parts().bytes}, options.dtype(at::kByte));
  weight->bytes.narrow(0, rows * columns, rows * static_cast<int64_t>(sizeof(float))).view(at::kFloat).fill_(1);
  return weight;
}

// A square matrix.
std::vector<BenchCase> BenchFp8Linear(const BenchSize& s) {
  if (s.type == at::kHalf) return {};
  const int64_t width = std::min<int64_t>(s.columns, 1024) / 16 * 16;
  if (width == 0) return {};
  const at::Tensor x = BenchInput({s.rows, width}, s.type);
  const std::shared_ptr<PackedWeight> weight = RandomFp8(width, width, x.options());
  return {{.forward_bytes = static_cast<double>(2 * x.nbytes() + weight->bytes.nbytes()),
           .run =
               [=] {
                 Fp8Linear(x, *weight, at::Tensor(), nullptr);
                 return BenchCase::Tensors{};
               },
           .shape = {s.rows, width, width}}};
}

std::vector<CaseReport> ReportFp8Linear(const at::Tensor& like) {
  if (like.scalar_type() == at::kHalf) return {};
  const PackedWeight none(PlaceParts(kFp8Storage, {}), {0, 0}, like.scalar_type());
  return {kFp8Linear.Report("[any, any]", {like, none})};
}

}  // namespace

Operator operators::fp8_linear() {
  return {.name = kFp8Linear.op(),
          .summary = "a frozen linear layer in e4m3, a scale for each token and output channel",
          .implementations = kFp8Linear.names(),
          .report = ReportFp8Linear,
          .bench = BenchFp8Linear};
}

at::Tensor RoundedToFp8(const at::Tensor& x, const SplitContraction::Largest& largest) {
  const at::NoGradGuard no_graph;
  at::Tensor of_rows = x.abs().amax(1).to(at::kFloat);
  if (largest) largest(of_rows);
  const at::Tensor scales = ScalesOf(of_rows).unsqueeze(1);
  return x.to(at::kFloat).div(scales).to(at::kFloat8_e4m3fn).to(at::kFloat).mul_(scales).to(x.scalar_type());
}

at::Tensor Fp8Linear(const at::Tensor& x, const PackedWeight& weight, const at::Tensor& bias,
                     const SplitContraction* split) {
  const at::NoGradGuard no_graph;
  const Fp8Case given{x, weight, bias, split == nullptr ? SplitContraction::Largest{} : split->inputs};
  return kFp8Linear.Choose(given).forward(given);
}

at::Tensor Fp8InputGradient(const at::Tensor& y_gradient, const PackedWeight& weight, const SplitContraction* split) {
  const at::NoGradGuard no_graph;
  const Fp8Case given{y_gradient, weight, {}, split == nullptr ? SplitContraction::Largest{} : split->outputs};
  return kFp8Linear.Choose(given).backward.function(given);
}

}  // namespace trireme
