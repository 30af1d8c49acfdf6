#include "ops/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace trireme {

at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const bool grouped = query.size(2) != key.size(2);
  const at::Tensor result =
      at::scaled_dot_product_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
                                       /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true,
                                       /*scale=*/{}, /*enable_gqa=*/grouped);
  return result.transpose(1, 2);
}

}  // namespace trireme
