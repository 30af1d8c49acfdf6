#include "ops/grouped_linear/cuda.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <cstdint>
#include <optional>

#include "core/base/error.h"
#include "core/cuda/cuda.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"

namespace trireme::cuda {
namespace {

constexpr int64_t kPackBytes = 16, kPack = 8;  // the latter: elements in bf16
constexpr int kHopper = 90;                    // compute capability, times ten

// Called by name: the older torch compiles this file, too.
using GroupedProduct = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                  const std::optional<at::Tensor>&, std::optional<at::ScalarType>);
const std::optional<c10::TypedOperatorHandle<GroupedProduct>>& FindGrouped() {
  static const auto found = [] {
    std::optional<c10::TypedOperatorHandle<GroupedProduct>> typed;
    const auto schema = c10::Dispatcher::singleton().findSchema({"aten::_grouped_mm", ""});
    if (schema) typed.emplace(schema->typed<GroupedProduct>());
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

namespace {

// The product is rounded to bf16 once, as that of ATen's loop is, and added in fp32.
void AddProduct(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& x, const RowEnds& ends,
                bool add) {
  const at::Tensor product = Multiply(output_gradient.t(), x, ends).contiguous();
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

// All products in one launch, straight into the fp32 sums.
void AddInKernel(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& x, const RowEnds& ends,
                 bool add) {
  CheckLaunch(CudaKernels().grouped_gradient({.output_gradient = output_gradient.const_data_ptr(),
                                              .x = x.const_data_ptr(),
                                              .sum = Data<float>(sum),
                                              .ends = ends.On(x.device()).const_data_ptr<int64_t>(),
                                              .rows = x.size(0),
                                              .out = sum.size(1),
                                              .in = sum.size(2),
                                              .experts = sum.size(0),
                                              .sum_stride = sum.stride(0),
                                              .add = add},
                                             CudaStream()),
              "the experts' weight gradients");
}

bool StartsPack(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kPackBytes == 0;
}

// What the kernel needs: Hopper, room for the order of the experts, and matrices that start at packs of 16 bytes.
bool IsForKernel(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& x) {
  static const bool hopper = Cuda::Open().bridge().Capability() == kHopper;
  const bool packs = sum.stride(0) * sum.element_size() % kPackBytes == 0 && StartsPack(sum);
  return hopper && sum.size(0) <= kMostExperts && packs && StartsPack(output_gradient) && StartsPack(x);
}

}  // namespace

void AddGroupedGradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& x,
                        const RowEnds& ends, bool add) {
  TRIREME_CHECK(sum.scalar_type() == at::kFloat && sum[0].is_contiguous());
  const at::Tensor dense_gradient = output_gradient.contiguous(), dense = x.contiguous();
  const auto work = IsForKernel(sum, dense_gradient, dense) ? AddInKernel : AddProduct;
  work(sum, dense_gradient, dense, ends, add);
}

}  // namespace trireme::cuda
