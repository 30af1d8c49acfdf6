#include "ops/linear/row_bias.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "ops/choose.h"
#include "ops/element_types.h"
#include "ops/linear/cpu_bias.h"

namespace trireme {

// ATen's product of bf16 that adds a bias takes up to twice as long as the product alone.
at::Tensor ProductWithBias(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
  const bool loops = x.is_cpu() && x.scalar_type() == at::kBFloat16 && bias.scalar_type() == at::kBFloat16;
  if (!loops || !bias.is_contiguous()) return at::addmm(bias, x, matrix.t());
  const at::Tensor y = at::mm(x, matrix.t());
  at::parallel_for(0, y.size(0), GrainOfRows(y.size(1)), [&](int64_t begin, int64_t end) {
    cpu::AddToRows(Data<cpu::Bf16>(bias), y.size(1), {begin, end}, Data<cpu::Bf16>(y));
  });
  return y;
}

void AddSumOfRows(const at::Tensor& x, at::Tensor& sum) {
  if (!WhyNoLoops(x).empty() || !x.is_contiguous() || !sum.is_contiguous()) {
    sum.add_(x.sum(0, /*keepdim=*/false, at::kFloat));
    return;
  }
  const int64_t slabs = (x.size(1) + cpu::kSlab - 1) / cpu::kSlab;
  ByType(x, [&](auto type) {
    at::parallel_for(0, slabs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) {
        cpu::AddColumnSums(Data<decltype(type)>(x),
                           {.rows = x.size(0), .columns = x.size(1), .begin = slab * cpu::kSlab}, Data<float>(sum));
      }
    });
  });
}

}  // namespace trireme
