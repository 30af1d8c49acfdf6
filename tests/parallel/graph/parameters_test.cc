// A layer's parameters for every tensor-parallel size: the ranks' slices of each Hugging Face tensor add up
// to the tensor, and sizes that do not divide are refused with numbers.
#include "parallel/graph/parameters.h"

#include <map>
#include <numeric>

#include <gtest/gtest.h>
#include "core/base/error.h"
#include "tests/parallel/graph/example_graph.h"

namespace trireme {
namespace {

constexpr int64_t kHidden = 12, kHeads = 8, kHeadDim = 4, kFfn = 16, kVocabulary = 13;

LayerGraph SmallGraph(int64_t kv_heads) {
  DecoderSpec decoder;
  decoder.attention = {.hidden = kHidden,
                       .heads = kHeads,
                       .kv_heads = kv_heads,
                       .head_dim = kHeadDim,
                       .qkv_bias = true,
                       .output_bias = true,
                       .qk_norm = true};
  decoder.mlp = {.hidden = kHidden, .ffn = kFfn, .bias = true};
  HfNames names;
  for (const char* role : {"attention_norm", "attention.q", "attention.k", "attention.v", "attention.q_norm",
                           "attention.k_norm", "attention.output", "mlp_norm", "mlp.gate", "mlp.up", "mlp.down"}) {
    for (const char* kind : {".weight", ".bias"}) names[std::string(role) + kind] = std::string("hf.") + role + kind;
  }
  LayerGraph graph{.family = "test", .layers = {}};
  graph.layers.push_back({"embedding", EmbeddingSpec{kVocabulary, kHidden}, {{"embedding.weight", "hf.embed"}}});
  graph.layers.push_back({"layers.0", decoder, names});
  graph.layers.push_back(
      {"head", HeadSpec{kVocabulary, kHidden}, {{"norm.weight", "hf.norm"}, {"logits.weight", "hf.head"}}});
  return graph;
}

// Visits every element of a copy with its flat index in the file and in the local tensor.
template <typename Visit>
void ForEachElement(const SliceCopy& copy, Visit visit) {
  const int64_t count = Elements(copy.extent);
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat, file = copy.file_offset, local = copy.local_offset;
    for (size_t dim = copy.extent.size(); dim-- > 0;) {
      const int64_t index = rest % copy.extent[dim];
      rest /= copy.extent[dim];
      file += index * copy.file_strides[dim];
      local += index * copy.local_strides[dim];
    }
    visit(file, local);
  }
}

class ParametersOverRanks : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ParametersOverRanks, SlicesAddUpToTheTensor) {
  const auto [tensor, kv_heads] = GetParam();
  const LayerGraph graph = SmallGraph(kv_heads);
  const Grids grids = MakeGrids(tensor, {.tensor = tensor});
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = tensor})) {
      const Placement placement(parameter.declaration, grids);
      std::map<std::string, std::vector<int>> owners;
      for (const HfTensor& source : parameter.hf) owners[source.name].resize(Elements(source.shape));
      for (int rank = 0; rank < tensor; ++rank) {
        std::vector<int> local(Elements(placement.LocalShape()));
        for (const SliceCopy& copy : SliceCopies(parameter, placement, rank)) {
          ForEachElement(copy, [&](int64_t file_index, int64_t local_index) {
            local.at(local_index) += 1;
            if (copy.replica == 0) owners[copy.source->name].at(file_index) += 1;
          });
        }
        for (int count : local) EXPECT_LE(count, 1) << parameter.declaration.name << ": a local element filled twice";
      }
      for (const auto& [name, counts] : owners) {
        for (int count : counts) ASSERT_EQ(count, 1) << name << ": an element without exactly one owner";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ParametersOverRanks,
                         testing::Values(std::tuple{1, 8}, std::tuple{1, 2}, std::tuple{2, 2}, std::tuple{2, 4},
                                         std::tuple{4, 2}, std::tuple{8, 2}, std::tuple{8, 1}));

std::string RefusalOf(int64_t kv_heads, int tensor) {
  const LayerGraph graph = SmallGraph(kv_heads);
  try {
    for (const Layer& layer : graph.layers) {
      for (const Parameter& parameter : ParametersOf(graph, layer, {.size = tensor})) {
        Placement(parameter.declaration, MakeGrids(tensor, {.tensor = tensor}));
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Parameters, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(RefusalOf(3, 2),
            "layers.0: 3 key-value heads are not divisible by parallel.tensor = 2; choose a tensor size that "
            "divides 3 or "
            "is a multiple of it");
  EXPECT_NE(RefusalOf(2, 3).find("8 attention heads are not divisible by parallel.tensor = 3"), std::string::npos);
}

TEST(Parameters, GradientsArePartialWhereRanksSeeOtherTokensOrHeads) {
  const LayerGraph graph = SmallGraph(2);
  for (bool sequence : {true, false}) {
    for (const Parameter& parameter : ParametersOf(graph, graph.layers[1], {.size = 2, .sequence = sequence})) {
      const std::string& name = parameter.declaration.name;
      const bool whole = parameter.declaration.dims[0].axis.empty() && parameter.declaration.dims.size() == 1;
      const bool head_norm = name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight");
      const bool wanted = whole && (sequence || head_norm);
      EXPECT_EQ(!parameter.declaration.partial_gradient.empty(), wanted) << name << ", sequence " << sequence;
    }
  }
}

LayerGraph GraphWithExperts(int64_t experts) {
  LayerGraph graph = ExampleGraph({}, {1});
  PutExperts(graph, 1, {.router = {.experts = experts, .top_k = 2}, .hidden = 8, .ffn = 12});
  return graph;
}

TEST(Parameters, ExpertsAreStackedAndSplitOverTheirOwnGrid) {
  const LayerGraph graph = GraphWithExperts(4);
  const Grids grids = MakeGrids(8, {.tensor = 2, .expert = 2, .expert_tensor = 2});
  std::map<std::string, Parameter> found;
  for (Parameter& parameter :
       ParametersOf(graph, graph.layers[1], {.size = 2, .sequence = false, .expert = 2, .expert_tensor = 2})) {
    const std::string name = parameter.declaration.name;
    found.emplace(name, std::move(parameter));
  }
  const Parameter& gate_up = found.at("layers.0.experts.gate_up.weight");
  const Placement placement(gate_up.declaration, grids);
  EXPECT_EQ(placement.GlobalShape(), (Shape{4, 24, 8}));
  EXPECT_EQ(placement.LocalShape(), (Shape{2, 12, 8}));
  ASSERT_EQ(gate_up.hf.size(), 8u);
  EXPECT_EQ(gate_up.hf[3].name, "layers.0.1.up");
  EXPECT_EQ(gate_up.hf[3].shape, (Shape{12, 8}));
  EXPECT_EQ(gate_up.hf[3].box.offset, (Shape{1, 12, 0}));
  // Rank 3 is etp 1, ep 1: the second half of gate and of up, of experts 2 and 3.
  const std::vector<LocalBox> boxes = placement.LocalBoxes(3);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].global.offset, (Shape{2, 6, 0}));
  EXPECT_EQ(boxes[1].global.offset, (Shape{2, 18, 0}));
  EXPECT_EQ(Placement(found.at("layers.0.experts.down.weight").declaration, grids).LocalShape(), (Shape{2, 8, 6}));
  // Each tensor-parallel rank routes its own tokens, with sequence parallelism and without.
  EXPECT_EQ(found.at("layers.0.router.weight").declaration.partial_gradient, (AxisNames{"tp"}));
  EXPECT_FALSE(found.contains("layers.0.mlp.gate_up.weight"));
}

TEST(Parameters, RefusesExpertsThatDoNotDivide) {
  const LayerGraph graph = GraphWithExperts(6);
  try {
    ParametersOf(graph, graph.layers[1], {.expert = 4});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "layers.0: 6 experts are not divisible by parallel.expert = 4; "
                 "choose a size that divides 6");
  }
}

}  // namespace
}  // namespace trireme
