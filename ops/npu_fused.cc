#include "ops/npu_fused.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

namespace trireme::npu {
namespace {

using Stack = torch::jit::Stack;

Stack Call(const char* name, Stack arguments) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(arguments);
  return arguments;
}

std::pair<at::Tensor, at::Tensor> Two(const Stack& results) {
  return {results[0].toTensor(), results[1].toTensor()};
}

// The only mask that the operator accepts for causal attention of any length: true above the diagonal, 2048 x
// 2048.
const at::Tensor& CausalMask(const at::Tensor& like) {
  constexpr int64_t kSize = 2048;
  static const at::Tensor* const mask =
      new at::Tensor(at::ones({kSize, kSize}, like.options().dtype(at::kBool).requires_grad(false)).triu(1));
  return *mask;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return Two(Call("npu::npu_rms_norm", {x, weight, eps}));
}

std::pair<at::Tensor, at::Tensor> RmsNormBackward(const at::Tensor& y_gradient, const at::Tensor& x,
                                                  const at::Tensor& weight, const at::Tensor& scale) {
  return Two(Call("npu::npu_rms_norm_backward", {y_gradient, x, weight, scale}));
}

at::Tensor SwiGlu(const at::Tensor& gate_up) {
  return Call("npu::npu_swiglu", {gate_up, int64_t{-1}})[0].toTensor();
}

at::Tensor SwiGluBackward(const at::Tensor& gradient, const at::Tensor& gate_up) {
  return Call("npu::npu_swiglu_backward", {gradient, gate_up, int64_t{-1}})[0].toTensor();
}

at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  return Call("npu::npu_rotary_mul", {x, cosine, sine, std::string("half")})[0].toTensor();
}

at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           double scale) {
  constexpr int64_t kFar = 2147483647, kCausal = 2;
  const c10::IValue none;
  const Stack results = Call("npu::npu_fusion_attention", {query,
                                                           key,
                                                           value,
                                                           query.size(1),
                                                           std::string("BNSD"),
                                                           /*pse=*/none,
                                                           /*padding_mask=*/none,
                                                           CausalMask(query),
                                                           scale,
                                                           /*keep_prob=*/1.0,
                                                           /*pre_tockens=*/kFar,
                                                           /*next_tockens=*/kFar,
                                                           /*inner_precise=*/int64_t{0},
                                                           /*prefix=*/none,
                                                           /*actual_seq_qlen=*/none,
                                                           /*actual_seq_kvlen=*/none,
                                                           /*sparse_mode=*/kCausal,
                                                           /*gen_mask_parallel=*/true,
                                                           /*sync=*/false,
                                                           /*softmax_layout=*/std::string()});
  return results[0].toTensor();
}

at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const std::vector<int64_t>& ends) {
  constexpr int64_t kOneResult = 3, kByRows = 0, kEnds = 0, kNoActivation = 0;
  const c10::IValue none;
  const at::Tensor groups = at::tensor(ends, at::kLong).to(x.device());
  const Stack results =
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
