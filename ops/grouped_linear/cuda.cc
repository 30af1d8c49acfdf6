#include "ops/grouped_linear/cuda.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <optional>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"

namespace trireme::cuda {
namespace {

constexpr int64_t kPack = 8;  // elements of 16 bytes

// Called by name: the older torch compiles this file, too.
using Grouped = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                           const std::optional<at::Tensor>&, std::optional<at::ScalarType>);
const std::optional<c10::TypedOperatorHandle<Grouped>>& FindGrouped() {
  static const auto found = [] {
    std::optional<c10::TypedOperatorHandle<Grouped>> typed;
    const auto schema = c10::Dispatcher::singleton().findSchema({"aten::_grouped_mm", ""});
    if (schema) typed.emplace(schema->typed<Grouped>());
    return typed;
  }();
  return found;
}

at::Tensor Multiply(const at::Tensor& a, const at::Tensor& b, const RowEnds& ends) {
  const at::Tensor offsets = at::tensor(ends.host(), at::kInt).to(a.device(), /*non_blocking=*/true);
  return FindGrouped()->call(a, b, offsets, std::nullopt, std::nullopt);
}

}  // namespace

bool AreWide(const at::Tensor& matrices) { return matrices.size(1) % kPack == 0 && matrices.size(2) % kPack == 0; }

std::string WhyNotGrouped(const at::Tensor& x) {
  if (!x.is_cuda()) return "the grouped products are for a GPU";
  if (x.scalar_type() != at::kBFloat16) return "the grouped products are of bf16";
  if (!FindGrouped()) return "this torch has no grouped products; 2.8 and later have";
  if (std::string why = WhyNoCudaKernel(x); !why.empty()) return why;
  if (x.dim() != 2 || x.size(0) == 0) return "there are no rows";
  return x.size(1) % kPack == 0 ? "" : Concat("rows of ", x.size(1), " elements; wanted a multiple of 8");
}

at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const RowEnds& ends) {
  return Multiply(x, operands, ends);
}

// The product is rounded to bf16 once, as that of ATen's loop is, and added in fp32. An expert's part of the
// sum lies together, the experts maybe apart.
void AddGroupedGradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& x,
                        const RowEnds& ends, bool add) {
  const at::Tensor product = Multiply(output_gradient.t(), x, ends).contiguous();
  TRIREME_CHECK(sum.scalar_type() == at::kFloat && sum[0].is_contiguous());
  CheckLaunch(CudaKernels().accumulate({.sum = Data<float>(sum),
                                        .addend = product.data_ptr(),
                                        .parts = sum.size(0),
                                        .size = sum[0].numel(),
                                        .sum_stride = sum.stride(0),
                                        .addend_stride = product.stride(0),
                                        .add = add},
                                       IsBf16(product), CudaStream()),
              "grouped_linear");
}

}  // namespace trireme::cuda
