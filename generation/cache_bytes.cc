#include "generation/cache_bytes.h"

#include <algorithm>

#include "core/base/rounding.h"

namespace trireme {

int64_t CacheBytesPerToken(const LayerGraph& graph, const Config& config, const Grids& grids) {
  const int64_t tensor = grids.dense.Size("tp"), stages = grids.dense.Size("pp");
  const int64_t element = config.model().dtype() == DTYPE_FP32 ? 4 : 2;
  int64_t numbers = 0, layers = 0;
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr) continue;
    ++layers;
    const AttentionSpec& attention = decoder->attention;
    if (attention.delta) continue;  // StateBytesPerRow
    numbers += attention.latent ? attention.latent->kv_rank + attention.latent->qk_rope_head_dim
                                : 2 * std::max<int64_t>(attention.kv_heads / tensor, 1) * attention.head_dim;
  }
  return layers == 0 ? 0 : DivideUp(numbers * element, stages);
}

int64_t StateBytesPerRow(const LayerGraph& graph, const Config& config, const Grids& grids) {
  const int64_t tensor = grids.dense.Size("tp"), stages = grids.dense.Size("pp");
  const int64_t element = config.model().dtype() == DTYPE_FP32 ? 4 : 2;
  int64_t bytes = 0;
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr || !decoder->attention.delta) continue;
    const DeltaSpec& delta = *decoder->attention.delta;
    const int64_t state = delta.value_heads * delta.key_dim * delta.value_dim;
    const int64_t channels = 2 * delta.key_heads * delta.key_dim + delta.value_heads * delta.value_dim;
    bytes += (state * int64_t{sizeof(float)} + (delta.convolution - 1) * channels * element) / tensor;
  }
  return DivideUp(bytes, stages);
}

}  // namespace trireme
