// Every layer of small models of each kind, under several layouts, as text: parameters with their sharding
// and names in files, matmul parameters and FLOPs, saved activations. Compared line by line with
// layers.golden, so that describing a layer differently cannot change what it is. TRIREME_WRITE_GOLDEN=1
// rewrites the file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "models/families.h"
#include "parallel/graph/costs.h"
#include "parallel/graph/mtp.h"
#include "parallel/graph/parameters.h"
#include "train/plan/activations.h"

namespace trireme {
namespace {

Json Config(const char* model_type, const Json& changes) {
  Json config = {{"model_type", model_type}, {"vocab_size", 101},        {"hidden_size", 32},
                 {"num_hidden_layers", 2},   {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"intermediate_size", 48},  {"hidden_act", "silu"},     {"rms_norm_eps", 1e-5}};
  config.update(changes);
  return config;
}

Json Deepseek(const Json& changes) {
  Json config = Config("deepseek_v3", {{"num_key_value_heads", 4},
                                       {"kv_lora_rank", 16},
                                       {"q_lora_rank", nullptr},
                                       {"qk_nope_head_dim", 8},
                                       {"qk_rope_head_dim", 4},
                                       {"v_head_dim", 6},
                                       {"n_routed_experts", 4},
                                       {"n_shared_experts", 2},
                                       {"num_experts_per_tok", 2},
                                       {"moe_intermediate_size", 8},
                                       {"first_k_dense_replace", 1},
                                       {"n_group", 2},
                                       {"topk_group", 1},
                                       {"num_nextn_predict_layers", 2}});
  config.update(changes);
  return config;
}

struct Model {
  const char* name;
  LayerGraph graph;
};

LayerGraph Build(const Json& config) { return BuildGraph(HfConfig(config, "config.json")); }

std::vector<Model> Models() {
  std::vector<Model> models;
  models.push_back({"llama with biases", Build(Config("llama", {{"attention_bias", true}, {"mlp_bias", true}}))});
  models.push_back(
      {"qwen3 tied, with adapters", Build(Config("qwen3", {{"head_dim", 16}, {"tie_word_embeddings", true}}))});
  Layer& tuned = models.back().graph.layers[1];
  tuned.low_rank = {{"attention.q", {4, 2.0}}, {"attention.v", {2, 1.0}}, {"mlp.down", {4, 2.0}}};
  tuned.trained = std::set<std::string>{};
  models.push_back({"qwen2_moe", Build(Config("qwen2_moe", {{"num_experts", 4},
                                                            {"num_experts_per_tok", 2},
                                                            {"moe_intermediate_size", 24},
                                                            {"shared_expert_intermediate_size", 16}}))});
  models.push_back({"mixtral", Build(Config("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}}))});
  models.push_back({"deepseek_v3", Build(Deepseek(Json::object()))});
  models.push_back({"deepseek_v3, latent queries, two further tokens", Build(Deepseek({{"q_lora_rank", 12}}))});
  AddMtpLayers(models.back().graph, 2, 0.3);
  return models;
}

std::string DimText(const Dim& dim) {
  std::string text = dim.axis.empty() ? "whole" : dim.axis;
  for (const Block& b : dim.blocks) text += Concat(" ", b.size, "/", b.parts, "/", b.unit, "+", b.padding);
  return text;
}

void PrintParameter(const Parameter& p, std::ostream& out) {
  const ParameterDeclaration& d = p.declaration;
  out << "    " << d.name << " " << Name(d.dtype) << (d.grid == GridKind::kExpert ? " expert" : "");
  for (const Dim& dim : d.dims) out << " [" << DimText(dim) << "]";
  for (const std::string& axis : d.partial_gradient) out << " partial over " << axis;
  out << " initial " << static_cast<int>(p.initial.kind) << " " << p.initial.deviation;
  out << (p.trained ? "" : " frozen") << (p.added ? " added" : "") << (p.is_buffer ? " buffer" : "") << " <";
  for (const HfTensor& tensor : p.hf) {
    out << " " << tensor.name << ToText(tensor.box);
    for (const std::string& name : tensor.repeated) out << " = " << name;
  }
  out << "\n";
}

struct Layout {
  const char* name;
  TensorSplit split;
};

void PrintLayer(const Model& model, const Layer& layer, const Layout& layout, std::ostream& out) {
  out << "  " << layer.name << "\n";
  for (const Parameter& p : ParametersOf(model.graph, layer, layout.split)) PrintParameter(p, out);
  const ActivationShape shape{.tokens = 37,
                              .tensor = layout.split.size,
                              .sequence = layout.split.sequence,
                              .expert_tensor = layout.split.expert_tensor,
                              .element_bytes = 2};
  out << "    saved";
  for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL}) {
    out << " " << SavedActivationBytes(layer, recompute, shape) << " + "
        << RecomputedActivationBytes(layer, recompute, shape);
  }
  out << ", logits " << LogitsBytes(layer, shape) << "\n";
}

std::string Describe() {
  std::ostringstream out;
  out.precision(17);
  const Layout layouts[] = {{"one rank", {}},
                            {"tp 2, ep 2", {.size = 2, .sequence = true, .expert = 2}},
                            {"tp 4 without sequence, etp 2", {.size = 4, .sequence = false, .expert_tensor = 2}}};
  for (const Model& model : Models()) {
    out << "= " << model.name << "\n" << ToText(model.graph);
    for (const Layer& layer : model.graph.layers) {
      out << "  " << layer.name << " products " << MatMulParameters(layer) << " flops " << ForwardFlops(layer, 77)
          << "\n";
    }
    out << "  flops of a step " << ModelFlops(model.graph, 3, 77) << "\n";
    for (const Layout& layout : layouts) {
      out << "- " << layout.name << "\n";
      for (const Layer& layer : model.graph.layers) PrintLayer(model, layer, layout, out);
    }
  }
  return out.str();
}

TEST(Layers, AreUnchanged) {
  const std::string found = Describe();
  if (std::getenv("TRIREME_WRITE_GOLDEN") != nullptr) std::ofstream(LAYERS_GOLDEN) << found;
  std::istringstream now(found), golden(ReadTextFile(LAYERS_GOLDEN));
  std::string line, wanted;
  for (int number = 1; std::getline(golden, wanted); ++number) {
    ASSERT_TRUE(std::getline(now, line)) << "missing: layers.golden has line " << number << ": " << wanted;
    ASSERT_EQ(line, wanted) << "line " << number;
  }
  EXPECT_FALSE(std::getline(now, line)) << "not in layers.golden: " << line;
}

}  // namespace
}  // namespace trireme
