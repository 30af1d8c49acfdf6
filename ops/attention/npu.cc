#include "ops/attention/npu.h"

#include <ATen/ops/ones.h>

#include <cstdint>
#include <string>

#include "ops/npu_call.h"

namespace trireme::npu {
namespace {

// The one mask that the operator wants for causal attention of any length: true above the diagonal, 2048 x
// 2048.
const at::Tensor& CausalMask(const at::Tensor& like) {
  constexpr int64_t kSize = 2048;
  static const at::Tensor* const mask =
      new at::Tensor(at::ones({kSize, kSize}, like.options().dtype(at::kBool).requires_grad(false)).triu(1));
  return *mask;
}

}  // namespace

at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           double scale) {
  constexpr int64_t kFar = 2147483647, kCausal = 2;
  const c10::IValue none;
  const torch::jit::Stack results = Call("npu::npu_fusion_attention", {query,
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

}  // namespace trireme::npu
