// Tuned graphs: which parameters are added and trained, how they are sharded, what they are called in files;
// and what is refused.
#include "parallel/graph/tuning.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "core/base/error.h"
#include "parallel/graph/parameters.h"
#include "tests/parallel/graph/example_graph.h"

namespace trireme {
namespace {

// Two layers, the second with experts; tensors are named "model.LAYER.ROLE".
LayerGraph NamedGraph() {
  LayerGraph graph = ExampleGraph({}, {1, 1});
  PutExperts(graph, 2, {.router = {.experts = 4, .top_k = 2}, .hidden = 8, .ffn = 6});
  for (Layer& layer : graph.layers) {
    for (auto& [role, name] : layer.hf_names) {
      const bool expert = role.starts_with("experts.");
      name = "model." + layer.name + "." + (expert ? "experts.{expert}." + role.substr(8) : role);
    }
  }
  return graph;
}

std::map<std::string, Parameter> ParametersByName(const LayerGraph& graph, const TensorSplit& split) {
  std::map<std::string, Parameter> found;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, split)) {
      found.emplace(parameter.declaration.name, parameter);
    }
  }
  return found;
}

std::string Refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TargetNames Targets(std::vector<std::string> names) { return {"tuning.targets", std::move(names)}; }
const TargetNames kNothing{"tuning.modules_to_save", {}};

LayerGraph Adapted(const std::vector<std::string>& targets, const TargetNames& saved = kNothing) {
  LayerGraph graph = NamedGraph();
  ApplyAdapter(graph, PlanAdapter(graph, Targets(targets), saved, {.rank = 3, .alpha = 6}));
  return graph;
}

std::vector<std::string> TrainedNames(const LayerGraph& graph) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : ParametersByName(graph, {})) {
    if (parameter.trained) names.push_back(name);
  }
  return names;
}

TEST(Tuning, AdaptersOfAFusedMatrixAreSplitAsItIs) {
  const auto parameters = ParametersByName(Adapted({"attention.q", "attention.v"}), {.size = 2});
  const Grids grids = MakeGrids(2, {.tensor = 2});
  const Parameter& a = parameters.at("layers.0.attention.qkv.lora_a");
  EXPECT_EQ(Placement(a.declaration, grids).LocalShape(), (Shape{6, 8}));
  EXPECT_EQ(a.declaration.partial_gradient, AxisNames{"tp"});
  ASSERT_EQ(a.hf.size(), 2u);
  EXPECT_EQ(a.hf[1].name, "model.layers.0.attention.v.lora_A.weight");
  EXPECT_EQ(a.hf[1].box.offset, (Shape{3, 0}));
  const Parameter& b = parameters.at("layers.0.attention.qkv.lora_b.2");
  EXPECT_EQ(b.hf[0].name, "model.layers.0.attention.v.lora_B.weight");
  EXPECT_EQ(Placement(b.declaration, grids).LocalShape(), (Shape{4, 3}));  // one of two key-value heads
  EXPECT_TRUE(b.declaration.partial_gradient.empty());
  EXPECT_FALSE(parameters.contains("layers.0.attention.qkv.lora_b.1"));
}

TEST(Tuning, AdaptersOfARowParallelMatrixHaveAPartialGradientOfB) {
  const auto parameters = ParametersByName(Adapted({"mlp.down"}), {.size = 2});
  const Grids grids = MakeGrids(2, {.tensor = 2});
  const Parameter &a = parameters.at("layers.0.mlp.down.lora_a"), &b = parameters.at("layers.0.mlp.down.lora_b.0");
  EXPECT_EQ(Placement(a.declaration, grids).LocalShape(), (Shape{3, 8}));
  EXPECT_TRUE(a.declaration.partial_gradient.empty());
  EXPECT_EQ(Placement(b.declaration, grids).LocalShape(), (Shape{8, 3}));
  EXPECT_EQ(b.declaration.partial_gradient, AxisNames{"tp"});
}

TEST(Tuning, AdaptersOfExpertsAreStacksOnTheirGrid) {
  const auto parameters = ParametersByName(Adapted({"gate", "up"}), {.expert = 2, .expert_tensor = 2});
  const Grids grids = MakeGrids(4, {.expert = 2, .expert_tensor = 2});
  const Parameter& a = parameters.at("layers.1.experts.gate_up.lora_a");
  EXPECT_EQ(a.declaration.grid, GridKind::kExpert);
  EXPECT_EQ(Placement(a.declaration, grids).LocalShape(), (Shape{2, 6, 8}));
  EXPECT_EQ(a.declaration.partial_gradient, AxisNames{"etp"});
  EXPECT_EQ(a.hf.size(), 8u);
  const Parameter& up = parameters.at("layers.1.experts.gate_up.lora_b.1");
  EXPECT_EQ(Placement(up.declaration, grids).LocalShape(), (Shape{2, 3, 3}));
  EXPECT_EQ(up.hf[3].name, "model.layers.1.experts.3.up.lora_B.weight");
  EXPECT_EQ(up.hf[3].box, (Box{{3, 0, 0}, {1, 6, 3}}));
}

TEST(Tuning, OnlyPairsAndSavedModulesAreTrained) {
  const LayerGraph graph = Adapted({"output"}, {"tuning.modules_to_save", {"head.norm"}});
  EXPECT_EQ(TrainedNames(graph),
            (std::vector<std::string>{"head.norm.weight", "layers.0.attention.output.lora_a",
                                      "layers.0.attention.output.lora_b.0", "layers.1.attention.output.lora_a",
                                      "layers.1.attention.output.lora_b.0"}));
  EXPECT_EQ(graph.adapter->targets, std::set<std::string>{"output"});
}

TEST(Tuning, AllLinearExcludesRoutersAndTheHead) {
  const LayerGraph graph = Adapted({kAllLinear});
  for (const auto& [name, module] : graph.adapter->modules) {
    EXPECT_EQ(name.find("router"), std::string::npos) << name;
    EXPECT_EQ(name.find("head"), std::string::npos) << name;
  }
  EXPECT_EQ(graph.adapter->modules.size(), 4u + 3u + 4u + 3u * 4u);
  EXPECT_DOUBLE_EQ(graph.layers[2].low_rank.at("experts.down").scale, 2);
}

TEST(Tuning, AnAdapterOfOneLayerIsNamedInFull) {
  EXPECT_EQ(Adapted({"layers.1.attention.q"}).adapter->targets, std::set<std::string>{"model.layers.1.attention.q"});
}

TEST(Tuning, FreezeTrainsTheLastLayers) {
  LayerGraph graph = NamedGraph();
  Freeze(graph, Targets({"attention_norm", "down"}), {"tuning.modules_to_save", {"logits"}}, 1);
  EXPECT_EQ(TrainedNames(graph), (std::vector<std::string>{"head.logits.weight", "layers.1.attention_norm.weight",
                                                           "layers.1.experts.down.weight"}));
}

TEST(Tuning, Refusals) {
  EXPECT_EQ(Refusal([] { Adapted({"attention.p"}); }),
            "tuning.targets: 'attention.p' is not a module of the model; known: all-linear, embedding, k, "
            "output, q, v, "
            "attention_norm, down, gate, up, mlp_norm, router, logits, norm");
  EXPECT_EQ(Refusal([] { Adapted({"embedding"}); }),
            "tuning.targets: model.embedding.embedding cannot have a LoRA adapter; list it in "
            "tuning.modules_to_save instead");
  EXPECT_EQ(Refusal([] { Adapted({"q"}, {"tuning.modules_to_save", {"attention.q"}}); }),
            "tuning.modules_to_save: model.layers.0.attention.q has a LoRA adapter and cannot be trained in full; "
            "remove it");
  EXPECT_EQ(Refusal([] {
              LayerGraph graph = NamedGraph();
              AdapterPlan plan = PlanAdapter(graph, Targets({"down"}), kNothing, {.rank = 2});
              plan.modules.at("model.layers.1.experts.2.down").rank = 3;
              ApplyAdapter(graph, plan);
            }),
            "adapter: model.layers.1.experts.2.down has rank 3, alpha 8, unlike expert 0 of its layer; "
            "all experts of a layer must have the same");
  EXPECT_EQ(Refusal([] {
              LayerGraph graph = NamedGraph();
              Freeze(graph, Targets({"attention.k"}), kNothing, 0);
              ParametersByName(graph, {});
            }),
            "layers.0.attention.qkv.weight: model.layers.0.attention.k.weight cannot be trained without "
            "model.layers.0.attention.q.weight, model.layers.0.attention.v.weight: they are fused into one "
            "matrix; name all of them or none");
  EXPECT_EQ(Refusal([] {
              LayerGraph graph = NamedGraph();
              Freeze(graph, Targets({"all"}), kNothing, 3);
            }),
            "tuning.last_layers = 3; the model has 2 layers; write at most 2");
}

// What a run casts for every product, generation stores: the same matrices, and all else as it is.
TEST(CastProducts, AreStoredWhereNothingIsTrained) {
  LayerGraph cast = NamedGraph(), packed = NamedGraph();
  const TargetNames skipped{"model.fp8_skip", {"down"}};
  CastProducts(cast, skipped);
  LayerGraph stored = cast;
  StoreCastProducts(stored);
  PackBase(packed, kFp8Storage, skipped);
  const auto with_cast = ParametersByName(cast, {}), with_stored = ParametersByName(stored, {}),
             with_packed = ParametersByName(packed, {});
  int count = 0;
  for (const auto& [name, parameter] : with_stored) {
    EXPECT_EQ(parameter.packed.has_value(), with_cast.at(name).cast_to_fp8) << name;
    EXPECT_EQ(parameter.packed, with_packed.at(name).packed) << name;
    EXPECT_EQ(parameter.trained, with_packed.at(name).trained) << name;
    EXPECT_FALSE(parameter.cast_to_fp8) << name;
    count += parameter.packed.has_value();
  }
  EXPECT_EQ(with_stored.size(), with_cast.size());
  EXPECT_GT(count, 2);
}

}  // namespace
}  // namespace trireme
