#include "ops/grouped_linear/npu.h"

#include <ATen/ops/tensor.h>

#include "ops/npu_call.h"

namespace trireme::npu {

at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const std::vector<int64_t>& ends) {
  constexpr int64_t kOneResult = 3, kByRows = 0, kEnds = 0, kNoActivation = 0;
  const c10::IValue none;
  const at::Tensor groups = at::tensor(ends, at::kLong).to(x.device());
  const torch::jit::Stack results =
      Call("npu::npu_grouped_matmul", {c10::List<at::Tensor>({x}), c10::List<at::Tensor>({operands}),
                                       /*bias=*/none,
                                       /*scale=*/none,
                                       /*offset=*/none,
                                       /*antiquant_scale=*/none,
                                       /*antiquant_offset=*/none,
                                       /*per_token_scale=*/none, groups,
                                       /*activation_input=*/none,
                                       /*activation_quant_scale=*/none,
                                       /*activation_quant_offset=*/none,
                                       /*split_item=*/kOneResult,
                                       /*group_type=*/kByRows,
                                       /*group_list_type=*/kEnds,
                                       /*act_type=*/kNoActivation,
                                       /*tuning_config=*/none,
                                       /*output_dtype=*/none});
  return results[0].toTensorVector()[0];
}

}  // namespace trireme::npu
