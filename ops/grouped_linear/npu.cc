#include "ops/grouped_linear/npu.h"

#include "ops/npu_call.h"

namespace trireme::npu {
namespace {

enum class GroupedBy : int64_t { kRows = 0, kInnerDim = 2 };

at::Tensor CallGroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const at::Tensor& ends,
                             GroupedBy grouped) {
  constexpr int64_t kOneResult = 3, kEnds = 0, kNoActivation = 0;
  const c10::IValue none;
  const torch::jit::Stack results =
      Call("npu::npu_grouped_matmul", {c10::List<at::Tensor>({x}), c10::List<at::Tensor>({operands}),
                                       /*bias=*/none,
                                       /*scale=*/none,
                                       /*offset=*/none,
                                       /*antiquant_scale=*/none,
                                       /*antiquant_offset=*/none,
                                       /*per_token_scale=*/none, ends,
                                       /*activation_input=*/none,
                                       /*activation_quant_scale=*/none,
                                       /*activation_quant_offset=*/none,
                                       /*split_item=*/kOneResult,
                                       /*group_type=*/static_cast<int64_t>(grouped),
                                       /*group_list_type=*/kEnds,
                                       /*act_type=*/kNoActivation,
                                       /*tuning_config=*/none,
                                       /*output_dtype=*/none});
  return results[0].toTensorVector()[0];
}

}  // namespace

at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const at::Tensor& ends) {
  return CallGroupedMatMul(x, operands, ends, GroupedBy::kRows);
}

// The operator takes a transposed view of `a` as it is.
at::Tensor GroupedTransposedMatMul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends) {
  return CallGroupedMatMul(a.contiguous().t(), b.contiguous(), ends, GroupedBy::kInnerDim);
}

}  // namespace trireme::npu
