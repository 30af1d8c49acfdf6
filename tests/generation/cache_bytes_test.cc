// What generation keeps per token and per row, from the sizes of a model with layers of both kinds.
#include "generation/cache_bytes.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

LayerGraph Mixed() {
  DecoderSpec attention, delta;
  attention.attention = {.hidden = 64, .heads = 8, .kv_heads = 2, .head_dim = 16};
  delta.attention.delta = DeltaSpec{.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 12, .convolution = 4};
  LayerGraph graph;
  graph.layers = {
      {"layers.0", delta, {}}, {"layers.1", attention, {}}, {"layers.2", delta, {}}, {"layers.3", delta, {}}};
  return graph;
}

TEST(CacheBytes, CountStatesPerRow) {
  Config config;
  config.mutable_model()->set_dtype(DTYPE_BF16);
  // Of each delta layer the fp32 states of 4 heads, and three tokens of q, k and v.
  const int64_t layer = 4 * 8 * 12 * 4 + 3 * (2 * 2 * 8 + 4 * 12) * 2;
  EXPECT_EQ(StateBytesPerRow(Mixed(), config, MakeGrids(1, {})), 3 * layer);
  EXPECT_EQ(StateBytesPerRow(Mixed(), config, MakeGrids(2, {.tensor = 2})), 3 * layer / 2);
  EXPECT_EQ(StateBytesPerRow(Mixed(), config, MakeGrids(2, {.pipeline = 2})), 3 * layer / 2);
  EXPECT_EQ(CacheBytesPerToken(Mixed(), config, MakeGrids(1, {})), 2 * 2 * 16 * 2) << "of the layer of attention only";
}

}  // namespace
}  // namespace trireme
