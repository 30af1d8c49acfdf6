#include "ops/flat/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/flat/ascendc.h"
#include "ops/flat/cpu.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

namespace trireme {

namespace {

// Of a total: fp64, which torch_npu does not have.
at::ScalarType TotalType(at::Device device) { return device.is_privateuseone() ? at::kFloat : at::kDouble; }

at::Tensor ReferenceOfGradientNorm(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& part : values) norms.push_back(part.norm());
  return at::stack(norms).to(TotalType(values.front().device())).square().sum();
}

// Each block's sum in fp32. On an npu so is their total, of a few thousand: as exact as they are.
at::Tensor KernelOfGradientNorm(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& part : values) {
    const ascendc::KernelPlace place = PlaceOf(part);
    const auto size = static_cast<uint64_t>(part.numel());
    sums.push_back(at::empty({ascendc::SumOfSquaresBlocks(place, size)}, part.options()));
    ascendc::SumOfSquares(place, ElementOf(part), part.data_ptr(), size, Data<float>(sums.back()));
  }
  return at::cat(sums).to(TotalType(values.front().device())).sum();
}

// Sums of each block in fp64.
at::Tensor GradientNormByCuda(const std::vector<at::Tensor>& values) {
  constexpr int64_t kBlocks = 1056;  // eight to a multiprocessor of an H200
  const auto parts = static_cast<int64_t>(values.size());
  const at::Tensor sums = at::empty({parts, kBlocks}, values.front().options().dtype(at::kDouble));
  for (int64_t i = 0; i < parts; ++i) {
    const at::Tensor& part = values[static_cast<size_t>(i)];
    CheckLaunch(CudaKernels().sum_of_squares(Data<float>(part), part.numel(), Data<double>(sums) + i * kBlocks, kBlocks,
                                             CudaStream()),
                "gradient_norm");
  }
  return sums.sum();
}

double OnCpu(const at::Tensor& values) {
  constexpr int64_t kPiece = 65536;
  const int64_t count = values.numel(), pieces = (count + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<size_t>(pieces));
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      sums[static_cast<size_t>(piece)] =
          cpu::SumOfSquares(Data<float>(values), {piece * kPiece, std::min(count, (piece + 1) * kPiece)});
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

at::Tensor LoopsOfGradientNorm(const std::vector<at::Tensor>& values) {
  double total = 0;
  for (const at::Tensor& part : values) total += OnCpu(part);
  return at::scalar_tensor(total, at::kDouble);
}

const ImplementationList<at::Tensor, decltype(&ReferenceOfGradientNorm)> kGradientNorm{
    "gradient_norm",
    {{"cpu", WhyNoLoops, LoopsOfGradientNorm},
     {"cuda", WhyNoCudaKernel, GradientNormByCuda},
     {"ascendc", WhyNoKernel, KernelOfGradientNorm},
     {"aten", nullptr, ReferenceOfGradientNorm}}};

std::vector<BenchCase> BenchGradientNorm(const BenchSize& s) {
  if (s.type != at::kFloat) return {};
  const at::Tensor values = BenchInput({s.rows * s.columns}, at::kFloat);
  return {{.forward_bytes = static_cast<double>(values.nbytes()), .run = [=] {
             SumOfSquares(values);
             return BenchCase::Tensors{};
           }}};
}

}  // namespace

at::Tensor SumOfSquaresTensor(const std::vector<at::Tensor>& values, at::Device device) {
  for (const at::Tensor& part : values) {
    TRIREME_CHECK(part.scalar_type() == at::kFloat && part.is_contiguous());
  }
  if (values.empty()) return at::zeros({1}, at::TensorOptions(TotalType(device)).device(device));
  return kGradientNorm.Choose(values.front()).forward(values).reshape({1});
}

double SumOfSquares(const std::vector<at::Tensor>& values) {
  return values.empty() ? 0 : SumOfSquaresTensor(values, values.front().device()).item<double>();
}

Operator operators::gradient_norm() {
  return {.name = kGradientNorm.op(),
          .summary = "the squared norm of a gradient",
          .implementations = kGradientNorm.names(),
          .report =
              [](const at::Tensor& like) {
                const bool fp32 = like.scalar_type() == at::kFloat;
                return fp32 ? std::vector{kGradientNorm.Report("[any]", like)} : std::vector<CaseReport>{};
              },
          .bench = BenchGradientNorm};
}

}  // namespace trireme
