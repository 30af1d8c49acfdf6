// Gradients sharded over ranks are reassembled into the files' tensors, bit for bit: under tensor, data and
// pipeline parallelism, with shared key-value heads and a head tied across stages.
#include "train/step/whole_gradients.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "parallel/sharding/optimizer.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

LayerGraph SmallGraph(bool tied) {
  DecoderSpec decoder;
  decoder.attention = {.hidden = 12, .heads = 4, .kv_heads = 1, .head_dim = 6, .qkv_bias = true, .qk_norm = true};
  decoder.mlp = {.hidden = 12, .ffn = 16, .bias = true};
  HfNames names;
  for (const char* role : {"attention_norm", "attention.q", "attention.k", "attention.v", "attention.q_norm",
                           "attention.k_norm", "attention.output", "mlp_norm", "mlp.gate", "mlp.up", "mlp.down"}) {
    for (const char* kind : {".weight", ".bias"}) {
      names[std::string(role) + kind] = std::string("hf.") + role + kind;
    }
  }
  LayerGraph graph{.family = "test", .layers = {}};
  graph.layers.push_back({"embedding", EmbeddingSpec{13, 12}, {{"embedding.weight", "hf.embed"}}});
  graph.layers.push_back({"layers.0", decoder, names});
  HfNames head = {{"norm.weight", "hf.norm"}};
  if (!tied) head["logits.weight"] = "hf.head";
  graph.layers.push_back({"head", HeadSpec{.vocabulary = 13, .hidden = 12, .tied = tied}, head});
  return graph;
}

// A unique number for each element of each file tensor.
at::Tensor FileTensor(const HfTensor& tensor) {
  const auto first = static_cast<int64_t>(std::hash<std::string>()(tensor.name) % 1000) * 1000;
  return at::arange(first, first + Elements(tensor.shape), at::kFloat).view(tensor.shape);
}

std::vector<Layer> LayersOfStage(const LayerGraph& graph, int stage, int stages) {
  if (stages == 1) return graph.layers;
  if (stage == 0) return {graph.layers[0], graph.layers[1]};
  return HasTiedHead(graph) ? std::vector<Layer>{graph.layers[2], graph.layers[0]}
                            : std::vector<Layer>{graph.layers[2]};
}

// Each element comes from one rank; the others contribute nothing.
void FillGradients(Weights& weights, bool is_tied_copy_stage) {
  for (Weights::Entry& entry : weights.entries()) {
    if (is_tied_copy_stage && entry.weight.name == "embedding.embedding.weight") continue;
    const at::Tensor local = at::zeros(entry.weight.gradient.sizes(), at::kFloat);
    for (const SliceCopy& copy : SliceCopies(entry.parameter, entry.placement, TestJob().rank())) {
      if (copy.replica != 0) continue;
      local.as_strided(copy.extent, copy.local_strides, copy.local_offset)
          .copy_(FileTensor(*copy.source).as_strided(copy.extent, copy.file_strides, copy.file_offset));
    }
    entry.weight.gradient.copy_(local);
  }
}

void ExpectWholeGradients(const ParallelSizes& sizes, int zero, bool tied) {
  SCOPED_TRACE(testing::Message() << "tp " << sizes.tensor << " pp " << sizes.pipeline << " zero " << zero << " tied "
                                  << tied);
  const LayerGraph graph = SmallGraph(tied);
  const Grids grids = MakeGrids(TestJob().world(), sizes);
  const GroupPlan plan(grids, TrainingGroups({.experts = false, .tied_embedding = true, .buffer_mb = 1}));
  const CommunicatorSet groups(TestJob(), TestDevice(), plan, {.host_memory = true});
  const int stage = grids.dense.Coordinate(TestJob().rank(), "pp");
  const std::vector<Layer> layers = LayersOfStage(graph, stage, sizes.pipeline);
  Weights weights(graph, layers, grids, {.size = sizes.tensor, .sequence = true});
  std::vector<std::unique_ptr<Bucket>> buckets;
  std::vector<Bucket*> list;
  for (const Layer& layer : layers) {
    buckets.push_back(std::make_unique<Bucket>(layer.name, weights.EntriesOf(layer.name), groups.Get("dp-cp"),
                                               BucketOptions{.zero = zero}));
    list.push_back(buckets.back().get());
    list.back()->SealValues();
    list.back()->PrepareGradients();
  }
  FillGradients(weights, stage > 0);
  for (Bucket* bucket : list) bucket->StartReduce();
  Communicator* embedding = tied && sizes.pipeline > 1 ? &groups.Get("embedding") : nullptr;
  ShardedOptimizer optimizer(list, {groups.Get("tp"), groups.Get("world"), embedding}, TestJob(), {});
  optimizer.FinishGradients();
  const auto found = GatherGradients(graph, optimizer.Gradients(), groups.Get("world"));
  std::set<std::string> wanted;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      for (const HfTensor& tensor : parameter.hf) {
        wanted.insert(tensor.name);
        if (TestJob().rank() != 0) continue;
        ASSERT_TRUE(found.contains(tensor.name)) << tensor.name;
        EXPECT_TRUE(at::equal(found.at(tensor.name), FileTensor(tensor))) << tensor.name;
      }
    }
  }
  EXPECT_EQ(found.size(), TestJob().rank() == 0 ? wanted.size() : 0);
}

TEST(WholeGradients, AreTheFilesTensorsUnderAnyLayout) {
  const int world = TestJob().world();
  for (int tensor = 1; tensor <= world; tensor *= 2) {
    for (int pipeline = 1; pipeline <= std::min(world / tensor, 2); ++pipeline) {
      for (int zero : {0, 1, 3}) {
        for (bool tied : {false, true}) {
          ExpectWholeGradients({.tensor = tensor, .pipeline = pipeline}, zero, tied);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
