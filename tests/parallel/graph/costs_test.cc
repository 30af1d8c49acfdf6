// Costs against a case worked out by hand, and against the rule "6 FLOPs per matmul parameter and token".
#include "parallel/graph/costs.h"

#include <gtest/gtest.h>

#include "tests/parallel/graph/example_graph.h"

namespace trireme {
namespace {

// q and output 768 · 768 each, k and v 768 · 256 each, gate, up and down 768 · 2304 each:
// 2 · 589824 + 2 · 196608 + 3 · 1769472 = 6881280 per layer; the head 768 · 32000 = 24576000.
TEST(Costs, MatmulParametersOf107M) {
  const LayerGraph graph = Graph107M();
  EXPECT_EQ(MatMulParameters(graph.layers.front()), 0);
  EXPECT_EQ(MatMulParameters(graph.layers[1]), 6881280);
  EXPECT_EQ(MatMulParameters(graph.layers.back()), 24576000);
}

// For 512 tokens, per layer: 2 · 6881280 · 512 = 7046430720, and attention 2 · 2 · 12 · 64 · 512² / 2 =
// 402653184.
TEST(Costs, ForwardOf107M) {
  const LayerGraph graph = Graph107M();
  EXPECT_EQ(ForwardFlops(graph.layers.front(), 512), 0);
  EXPECT_EQ(ForwardFlops(graph.layers[1], 512), 7046430720.0 + 402653184.0);
  EXPECT_EQ(ForwardFlops(graph.layers.back(), 512), 25165824000.0);
}

// 107151360 matmul parameters: 6 · 107151360 · 1024 = 658337955840 for two rows of 512 tokens, and attention
// 3 · 2 rows · 12 layers · 402653184 = 28991029248.
TEST(Costs, TrainingOf107M) { EXPECT_EQ(ModelFlops(Graph107M(), 2, 512), 658337955840.0 + 28991029248.0); }

TEST(Costs, ATiedHeadStillCountsAsAMatmul) {
  EXPECT_EQ(ModelFlops(Graph107M(true), 3, 100), ModelFlops(Graph107M(false), 3, 100));
}

TEST(Costs, CostIsLinearInRowsButNotInTheirLength) {
  const LayerGraph graph = Graph107M();
  EXPECT_EQ(ModelFlops(graph, 4, 256), 4 * ModelFlops(graph, 1, 256));
  EXPECT_GT(ModelFlops(graph, 1, 1024), 4 * ModelFlops(graph, 1, 256));
}

}  // namespace
}  // namespace trireme
