// Partitions against an exhaustive search, and the refusals with their numbers.
#include "parallel/graph/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "core/base/error.h"
#include "parallel/graph/costs.h"
#include "tests/parallel/graph/example_graph.h"

namespace trireme {
namespace {

constexpr int64_t kLength = 16;

// What the partition optimises, as one value to compare: largest stage, sum of squares, ends in order. The
// sizes are small enough for exact sums.
using Merit = std::tuple<double, double, std::vector<size_t>>;

Merit MeritOf(const LayerGraph& graph, const std::vector<size_t>& ends) {
  double largest = 0, squares = 0;
  size_t begin = 0;
  for (size_t end : ends) {
    double cost = 0;
    for (; begin < end; ++begin) cost += ForwardFlops(graph.layers[begin], kLength);
    largest = std::max(largest, cost);
    squares += cost * cost;
  }
  return {largest, squares, ends};
}

// Every way to split the layers after `begin` into `stages` non-empty runs.
void Search(const LayerGraph& graph, size_t stages, std::vector<size_t>& ends, std::vector<Merit>& found) {
  const size_t begin = ends.empty() ? 0 : ends.back(), layers = graph.layers.size();
  if (stages == 1) {
    ends.push_back(layers);
    found.push_back(MeritOf(graph, ends));
    ends.pop_back();
    return;
  }
  for (size_t end = begin + 1; end + stages - 1 <= layers; ++end) {
    ends.push_back(end);
    Search(graph, stages - 1, ends, found);
    ends.pop_back();
  }
}

std::vector<size_t> EndsOf(const std::vector<StageLayers>& stages) {
  std::vector<size_t> ends;
  size_t begin = 0;
  for (const StageLayers& stage : stages) {
    EXPECT_EQ(stage.begin, begin);
    EXPECT_GT(stage.end, stage.begin);
    ends.push_back(begin = stage.end);
  }
  return ends;
}

std::string RefusalOf(const LayerGraph& graph, int stages, const std::vector<int>& said) {
  try {
    PartitionLayers(graph, stages, said, kLength);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "accepted";
}

std::vector<size_t> DecodersOf(const LayerGraph& graph, const std::vector<StageLayers>& stages) {
  std::vector<size_t> counts;
  for (const StageLayers& stage : stages) {
    size_t count = 0;
    for (size_t i = stage.begin; i < stage.end; ++i) count += std::holds_alternative<DecoderSpec>(graph.layers[i].spec);
    counts.push_back(count);
  }
  return counts;
}

void ExpectBestOfAll(const LayerGraph& graph, int stages) {
  std::vector<size_t> ends;
  std::vector<Merit> all;
  Search(graph, stages, ends, all);
  const auto partition = PartitionLayers(graph, stages, {}, kLength);
  EXPECT_EQ(MeritOf(graph, EndsOf(partition)), *std::min_element(all.begin(), all.end()))
      << ToText(graph) << stages << " stages";
  EXPECT_GT(DecodersOf(graph, partition).front(), 0u);
}

TEST(Partition, IsTheBestOfAllForEqualLayers) {
  for (size_t layers : {1, 3, 5, 8}) {
    for (int64_t vocabulary : {1, 40, 100, 1000}) {
      for (bool tied : {false, true}) {
        const LayerGraph graph = ExampleGraph({.vocabulary = vocabulary, .tied = tied}, std::vector<int>(layers, 1));
        for (int stages = 1; stages <= static_cast<int>(layers); ++stages) ExpectBestOfAll(graph, stages);
      }
    }
  }
}

// For unequal layers the most even partition does not always have the smallest largest stage.
TEST(Partition, IsTheBestOfAllForUnequalLayers) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> model(3 + random() % 6);
    for (int& times : model) times = 1 + static_cast<int>(random() % 20);
    const LayerGraph graph = ExampleGraph({.vocabulary = 1 + static_cast<int64_t>(random() % 1000)}, model);
    ExpectBestOfAll(graph, 2 + static_cast<int>(random() % (model.size() - 1)));
  }
}

TEST(Partition, FiveLayersOnFourStages) {
  // A cheap head: one stage has two layers; not the last, which has the head, and of the others the one that
  // holds the fewest micro batches.
  const LayerGraph light = ExampleGraph({.vocabulary = 8}, {1, 1, 1, 1, 1});
  EXPECT_EQ(DecodersOf(light, PartitionLayers(light, 4, {}, kLength)), (std::vector<size_t>{1, 1, 2, 1}));
  // A head that costs more than two layers gets its own stage.
  const LayerGraph heavy = ExampleGraph({.vocabulary = 4000}, {1, 1, 1, 1, 1});
  EXPECT_EQ(DecodersOf(heavy, PartitionLayers(heavy, 4, {}, kLength)), (std::vector<size_t>{1, 2, 2, 0}));
}

TEST(Partition, EightStagesOfTwelveLayersAreTheSameForATiedHead) {
  const auto tied = PartitionLayers(Graph107M(true), 8, {}, 512);
  EXPECT_EQ(tied, PartitionLayers(Graph107M(false), 8, {}, 512));
  // The head costs 3.4 layers and gets its own stage; twelve layers on seven stages are five of two and two
  // of one.
  EXPECT_EQ(DecodersOf(Graph107M(), tied), (std::vector<size_t>{1, 1, 2, 2, 2, 2, 2, 0}));
}

TEST(Partition, SequenceLengthChangesTheBalance) {
  // Attention grows with the square of the length, the head does not: for a long sequence its stage takes
  // layers.
  const auto graph = Graph107M();
  const auto head_stage = [&](int64_t length) {
    return DecodersOf(graph, PartitionLayers(graph, 4, {}, length)).back();
  };
  EXPECT_LT(head_stage(512), head_stage(1 << 17));
}

TEST(Partition, AsTheUserSpecifies) {
  const LayerGraph graph = ExampleGraph({}, {1, 1, 1, 1, 1});
  EXPECT_EQ(PartitionLayers(graph, 4, {2, 1, 1, 1}, kLength),
            (std::vector<StageLayers>{{0, 3}, {3, 4}, {4, 5}, {5, 7}}));
  EXPECT_EQ(PartitionLayers(graph, 4, {0, 2, 3, 0}, kLength),
            (std::vector<StageLayers>{{0, 1}, {1, 3}, {3, 6}, {6, 7}}));
  EXPECT_EQ(PartitionLayers(graph, 7, {0, 1, 1, 1, 1, 1, 0}, kLength).size(), 7u);
  EXPECT_EQ(PartitionLayers(graph, 1, {5}, kLength), (std::vector<StageLayers>{{0, 7}}));
}

TEST(Partition, RefusesWithNumbers) {
  const LayerGraph graph = ExampleGraph({}, {1, 1, 1, 1, 1});
  EXPECT_EQ(RefusalOf(graph, 6, {}),
            "6 stages (parallel.pipeline and virtual_stages) for 5 decoder layers; lower them to at most 5 "
            "stages");
  EXPECT_EQ(RefusalOf(graph, 4, {2, 2, 1}),
            "parallel.stage_layers = [2, 2, 1] lists 3 stages; parallel.pipeline and virtual_stages make 4; "
            "write one number per stage");
  EXPECT_EQ(RefusalOf(graph, 4, {2, 2, 1, 1}),
            "parallel.stage_layers = [2, 2, 1, 1] adds up to 6 decoder layers; the model has 5; write numbers that "
            "add up to 5");
  EXPECT_EQ(RefusalOf(graph, 4, {2, 0, 2, 1}),
            "parallel.stage_layers = [2, 0, 2, 1]: stage 1 has 0 layers; wanted at least 1; only the first "
            "and the last stage may have none");
  EXPECT_EQ(RefusalOf(graph, 2, {-1, 6}), "parallel.stage_layers = [-1, 6]: stage 0 has -1 layers; wanted at least 0");
}

TEST(Partition, Texts) {
  const LayerGraph graph = ExampleGraph({}, {1, 1, 1, 1, 1});
  EXPECT_EQ(LayersText(graph, {0, 7}), "embedding, layers.0-4, head");
  EXPECT_EQ(LayersText(graph, {0, 1}), "embedding");
  EXPECT_EQ(LayersText(graph, {2, 3}), "layers.1");
  EXPECT_EQ(LayersText(graph, {4, 7}), "layers.3-4, head");
}

}  // namespace
}  // namespace trireme
