#include "ops/flat/accumulate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/flat/ascendc.h"
#include "ops/flat/cpu.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

namespace trireme {
namespace {

void ReferenceOfAccumulate(const at::Tensor& sum, const at::Tensor& addend) { sum.add_(addend); }

void KernelOfAccumulate(const at::Tensor& sum, const at::Tensor& addend) {
  ascendc::AddInto(PlaceOf(sum), ElementOf(addend), Data<float>(sum), addend.data_ptr(),
                   static_cast<uint64_t>(sum.numel()));
}

void LoopsOfAccumulate(const at::Tensor& sum, const at::Tensor& addend) {
  constexpr int64_t kGrain = 32768;
  ByType(addend, [&](auto type) {
    at::parallel_for(0, sum.numel(), kGrain, [&](int64_t begin, int64_t end) {
      cpu::AddInto(Data<float>(sum), Data<decltype(type)>(addend), {begin, end});
    });
  });
}

void Cuda(const at::Tensor& sum, const at::Tensor& addend) {
  CheckLaunch(CudaKernels().accumulate({.sum = Data<float>(sum),
                                        .addend = addend.data_ptr(),
                                        .parts = 1,
                                        .size = sum.numel(),
                                        .sum_stride = 0,
                                        .addend_stride = 0,
                                        .add = true},
                                       IsBf16(addend), CudaStream()),
              "accumulate");
}

// The sum is fp32 and on the addend's device.
std::string WhyNotLoopsOfAccumulate(const at::Tensor& addend) {
  return Either(WhyNoLoops(addend), addend.is_contiguous() ? "" : "the addend is strided");
}

const ImplementationList<at::Tensor, decltype(&ReferenceOfAccumulate)> kAccumulate{
    "accumulate",
    {{"cpu", WhyNotLoopsOfAccumulate, LoopsOfAccumulate},
     {"cuda", WhyNoCudaKernel, Cuda},
     {"ascendc", WhyNoKernel, KernelOfAccumulate},
     {"aten", nullptr, ReferenceOfAccumulate}}};

std::vector<BenchCase> BenchAccumulate(const BenchSize& s) {
  const int64_t n = s.rows * s.columns;
  const at::Tensor sum = BenchInput({n}, at::kFloat), addend = BenchInput({n}, s.type);
  return {{.forward_bytes = static_cast<double>(n) * (8.0 + static_cast<double>(addend.element_size())), .run = [=] {
             AddInto(sum, addend);
             return BenchCase::Tensors{};
           }}};
}

}  // namespace

void AddInto(const at::Tensor& sum, const at::Tensor& addend) {
  TRIREME_CHECK(sum.scalar_type() == at::kFloat && sum.is_contiguous());
  TRIREME_CHECK(sum.sizes() == addend.sizes());
  kAccumulate.Choose(addend).forward(sum, addend);
}

Operator operators::accumulate() {
  return {.name = kAccumulate.op(),
          .summary = "adds a gradient to its fp32 sum",
          .implementations = kAccumulate.names(),
          .report = [](const at::Tensor& like) { return std::vector{kAccumulate.Report("[any]", like)}; },
          .bench = BenchAccumulate};
}

}  // namespace trireme
