// Graphs with multi-token prediction: which layers and names they have, what they cost, where they are
// placed.
#include "parallel/graph/mtp.h"

#include <gtest/gtest.h>

#include "parallel/graph/costs.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/partition.h"
#include "parallel/graph/tuning.h"
#include "tests/parallel/graph/example_graph.h"

namespace trireme {
namespace {

LayerGraph Offered(bool tied = false) {
  LayerGraph graph = ExampleGraph({.tied = tied}, {1, 1, 1});
  OfferMtp(graph);
  OfferMtp(graph);
  return graph;
}

LayerGraph WithMtp(int64_t mtp_depths, bool tied = false) {
  LayerGraph graph = Offered(tied);
  AddMtpLayers(graph, mtp_depths, 0.3);
  return graph;
}

std::vector<std::string> NamesOf(const LayerGraph& graph) {
  std::vector<std::string> names;
  for (const Layer& layer : graph.layers) names.push_back(layer.name);
  return names;
}

// File names of a layer's parameters; those of copies in brackets.
std::vector<std::string> FilesOf(const LayerGraph& graph, const Layer& layer) {
  std::vector<std::string> files;
  for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
    for (const HfTensor& tensor : parameter.hf) {
      files.push_back(tensor.name);
      for (const std::string& copy : tensor.repeated) files.push_back("(" + copy + ")");
    }
  }
  return files;
}

TEST(MultiToken, LayersComeBeforeTheHeadAndUseItsNorm) {
  const LayerGraph graph = WithMtp(2);
  EXPECT_EQ(NamesOf(graph),
            (std::vector<std::string>{"embedding", "layers.0", "layers.1", "layers.2", "mtp.1", "mtp.2", "head"}));
  EXPECT_EQ(DecodersIn(graph), 3);
  EXPECT_TRUE(graph.mtp.empty());
  EXPECT_TRUE(graph.unused.empty());
  const std::vector<std::string> first = FilesOf(graph, graph.layers[4]), second = FilesOf(graph, graph.layers[5]);
  EXPECT_EQ(first.front(), "norm");  // the model's own
  EXPECT_EQ(first.size(), second.size() + 1);
  EXPECT_EQ(second.front(), "mtp.2.embedding_norm");
  EXPECT_EQ(second.back(), "mtp.2.norm");
  EXPECT_DOUBLE_EQ(std::get<HeadSpec>(graph.layers.back().spec).mtp_weight, 0.15);
}

TEST(MultiToken, FilesRepeatEmbeddingAndLogitsForEachDepth) {
  const LayerGraph graph = WithMtp(2);
  EXPECT_EQ(FilesOf(graph, graph.layers.front()),
            (std::vector<std::string>{"embed", "(mtp.1.embedding)", "(mtp.2.embedding)"}));
  EXPECT_EQ(FilesOf(graph, graph.layers.back()),
            (std::vector<std::string>{"logits", "(mtp.1.logits)", "(mtp.2.logits)"}));
  const LayerGraph tied = WithMtp(1, /*tied=*/true);
  EXPECT_EQ(FilesOf(tied, tied.layers.front()),
            (std::vector<std::string>{"embed", "(mtp.1.embedding)", "(mtp.1.logits)"}));
  EXPECT_TRUE(FilesOf(tied, tied.layers.back()).empty());
}

TEST(MultiToken, OneOfTwoLeavesTheOther) {
  const LayerGraph graph = WithMtp(1);
  ASSERT_EQ(graph.mtp.size(), 1u);
  EXPECT_EQ(graph.mtp[0].name, "mtp.2");
  EXPECT_EQ(graph.unused, (std::vector<std::string>{"mtp.2."}));
  EXPECT_EQ(NamesOf(WithMtp(0)), NamesOf(Offered()));
  EXPECT_FALSE(UsesEmbeddingAgain(WithMtp(0)));
  EXPECT_TRUE(UsesEmbeddingAgain(graph));
}

// Hidden 8: the projection has 8 · 16 matmul parameters besides the decoder layer's, the head 8 · 32 per
// depth.
TEST(MultiToken, Costs) {
  const LayerGraph graph = WithMtp(2);
  EXPECT_EQ(MatMulParameters(graph.layers[4]), MatMulParameters(graph.layers[3]) + 128);
  EXPECT_EQ(MatMulParameters(graph.layers.back()), 3 * 256);
  EXPECT_EQ(ForwardFlops(graph.layers[4], 16), ForwardFlops(graph.layers[3], 16) + 2 * 128 * 16);
}

TEST(MultiToken, LivesOnTheLastStage) {
  const LayerGraph graph = WithMtp(2);
  const std::vector<StageLayers> balanced = PartitionLayers(graph, 3, {}, 16);
  EXPECT_EQ(balanced.back().end, 7u);
  EXPECT_EQ(LayersText(graph, balanced.back()), "mtp.1, mtp.2, head");
  const std::vector<StageLayers> said = PartitionLayers(graph, 2, {3, 0}, 16);
  EXPECT_EQ(said, (std::vector<StageLayers>{{0, 4}, {4, 7}}));
}

TEST(MultiToken, BelongsToTheLastLayersOfAFrozenModel) {
  LayerGraph graph = WithMtp(1);
  Freeze(graph, {"tuning.targets", {kAllWeights}}, {"tuning.modules_to_save", {}}, 1);
  std::vector<std::string> trained;
  for (const Layer& layer : graph.layers) {
    if (!layer.trained->empty()) trained.push_back(layer.name);
  }
  EXPECT_EQ(trained, (std::vector<std::string>{"layers.2", "mtp.1"}));
  EXPECT_TRUE(graph.layers[4].trained->contains("norm.weight"));
  EXPECT_FALSE(graph.layers[4].trained->contains("model_norm.weight"));  // the head's
}

}  // namespace
}  // namespace trireme
