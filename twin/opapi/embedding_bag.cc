// Sums, means and maxima of bags of embedding rows.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

OP(aclnnEmbeddingBag, [](Tensor weight, Tensor indices, Tensor offsets, bool scale_gradient, int64_t mode, bool sparse,
                         Optional<Tensor> sample_weights, bool include_last, int64_t padding, Tensor out,
                         Tensor offset2bag, Tensor bag_size, Tensor max_indices) {
  const auto [bags, ignored, sizes, largest] =
      at::_embedding_bag(weight, indices, offsets, scale_gradient, mode, sparse, sample_weights, include_last, padding);
  out.copy_(bags);
  bag_size.copy_(sizes.slice(0, 0, bag_size.size(0)));
  if (max_indices.sizes() == largest.sizes()) max_indices.copy_(largest);
  // ATen leaves it empty where it does not need it; the wheel's backward does. [indices]
  const Tensor starts = at::zeros({indices.size(0) + 1}, at::kLong);
  starts.index_add_(0, offsets.to(at::kLong), at::ones({offsets.size(0)}, at::kLong));
  if (offset2bag.numel() > 0) offset2bag.copy_(starts.cumsum(0).sub_(1).slice(0, 0, offset2bag.size(0)));
})
