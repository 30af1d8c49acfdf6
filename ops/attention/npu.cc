#include "ops/attention/npu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

#include <string>
#include <utility>

#include "ops/npu_call.h"

namespace trireme::npu {
namespace {

constexpr int64_t kFar = 2147483647;  // pre_tockens, next_tockens: no band
constexpr int64_t kAllKeys = 0;       // sparse modes
constexpr int64_t kBottomRightCausal = 3;
constexpr int64_t kBand = 4;  // from pre_tockens before to next_tockens after the diagonal that ends bottom right
constexpr int64_t kStatisticsColumns = 8;  // equal ones, as the operator wants them

// The one mask that the operators want for causal attention of any length: true above the diagonal, 2048 x
// 2048.
const at::Tensor& CausalMask(const at::Tensor& like) {
  constexpr int64_t kSize = 2048;
  static const at::Tensor* const mask =
      new at::Tensor(at::ones({kSize, kSize}, like.options().dtype(at::kBool).requires_grad(false)).triu(1));
  return *mask;
}

c10::IValue MaskOf(const VarLenCall& call, const at::Tensor& like) {
  return call.causal || call.window > 0 ? c10::IValue(CausalMask(like)) : c10::IValue();
}
int64_t ModeOf(const VarLenCall& call) { return call.window > 0 ? kBand : call.causal ? kBottomRightCausal : kAllKeys; }
int64_t BeforeOf(const VarLenCall& call) { return call.window > 0 ? call.window - 1 - call.beyond : kFar; }
int64_t AfterOf(const VarLenCall& call) { return call.window > 0 ? call.beyond : kFar; }

}  // namespace

VarLenResult VarLenAttention(const TokenHeads& heads, const VarLenCall& call, double scale) {
  const c10::IValue none;
  const torch::jit::Stack results = Call("npu::npu_fusion_attention", {heads.query,
                                                                       heads.key,
                                                                       heads.value,
                                                                       heads.query.size(1),
                                                                       std::string("TND"),
                                                                       /*pse=*/none,
                                                                       /*padding_mask=*/none,
                                                                       MaskOf(call, heads.query),
                                                                       scale,
                                                                       /*keep_prob=*/1.0,
                                                                       /*pre_tockens=*/BeforeOf(call),
                                                                       /*next_tockens=*/AfterOf(call),
                                                                       /*inner_precise=*/int64_t{0},
                                                                       /*prefix=*/none,
                                                                       call.QueryEnds(),
                                                                       call.KeyEnds(),
                                                                       ModeOf(call),
                                                                       /*gen_mask_parallel=*/true,
                                                                       /*sync=*/false,
                                                                       /*softmax_layout=*/std::string()});
  const at::Tensor maximum = results[1].toTensor().select(-1, 0), sum = results[2].toTensor().select(-1, 0);
  return {results[0].toTensor(), (maximum + sum.log()).flatten()};
}

TokenHeads VarLenAttentionBackward(const TokenHeads& heads, const VarLenCall& call, double scale,
                                   const VarLenResult& result, const at::Tensor& output_gradient) {
  const c10::IValue none;
  // exp(score - maximum) / sum is the probability: with the log-sum-exp as the maximum, the sum is one.
  const at::Tensor maximum = result.log_sum_exp.view({heads.query.size(0), heads.query.size(1), 1})
                                 .expand({-1, -1, kStatisticsColumns})
                                 .contiguous();
  const torch::jit::Stack gradients = Call("npu::npu_fusion_attention_grad", {heads.query,
                                                                              heads.key,
                                                                              heads.value,
                                                                              output_gradient,
                                                                              heads.query.size(1),
                                                                              std::string("TND"),
                                                                              /*pse=*/none,
                                                                              /*padding_mask=*/none,
                                                                              MaskOf(call, heads.query),
                                                                              maximum,
                                                                              at::ones_like(maximum),
                                                                              /*softmax_in=*/none,
                                                                              result.output,
                                                                              scale,
                                                                              /*keep_prob=*/1.0,
                                                                              /*pre_tockens=*/BeforeOf(call),
                                                                              /*next_tockens=*/AfterOf(call),
                                                                              /*inner_precise=*/int64_t{0},
                                                                              /*seed=*/int64_t{0},
                                                                              /*offset=*/int64_t{0},
                                                                              /*numels=*/int64_t{0},
                                                                              /*prefix=*/none,
                                                                              call.QueryEnds(),
                                                                              call.KeyEnds(),
                                                                              ModeOf(call),
                                                                              /*gen_mask_parallel=*/true,
                                                                              /*sync=*/false,
                                                                              /*softmax_layout=*/std::string()});
  return {gradients[0].toTensor(), gradients[1].toTensor(), gradients[2].toTensor()};
}

namespace {

// table: undefined where keys and values are rows of their own.
at::Tensor FusedInfer(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& table,
                      double scale, const InferRows& rows) {
  constexpr int64_t kBeforeTable = 11, kAfterTable = 8;  // quantised parts; padding, shared and rotary parts
  const c10::IValue none;
  const bool one_token = query.size(2) == 1;  // the operator then takes neither mask nor mode
  torch::jit::Stack arguments{query, key, value, /*pse_shift=*/none};
  arguments.push_back(one_token ? none : c10::IValue(CausalMask(query)));
  arguments.emplace_back(rows.queries);
  arguments.emplace_back(rows.keys);
  arguments.insert(arguments.end(), kBeforeTable, none);
  arguments.push_back(table.defined() ? c10::IValue(table) : none);
  arguments.insert(arguments.end(), kAfterTable, none);
  const torch::jit::Stack rest{/*num_heads=*/query.size(1),
                               scale,
                               /*pre_tokens=*/kFar,
                               /*next_tokens=*/kFar,
                               std::string("BNSD"),
                               /*num_key_value_heads=*/key.size(1),
                               one_token ? kAllKeys : kBottomRightCausal,
                               /*inner_precise=*/int64_t{0},
                               /*block_size=*/table.defined() ? key.size(2) : int64_t{0},
                               /*antiquant_mode=*/int64_t{0},
                               /*key_antiquant_mode=*/int64_t{0},
                               /*value_antiquant_mode=*/int64_t{0},
                               /*softmax_lse_flag=*/false};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return Call("npu::npu_fused_infer_attention_score", std::move(arguments))[0].toTensor();
}

}  // namespace

at::Tensor FusedInferAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                               const InferRows& rows) {
  return FusedInfer(query, key, value, at::Tensor(), scale, rows);
}

at::Tensor FusedInferOverBlocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& table, double scale, const InferRows& rows) {
  return FusedInfer(query, key, value, table, scale, rows);
}

}  // namespace trireme::npu
