// Graphs for tests of what follows from sizes alone.
#pragma once

#include <string>
#include <vector>

#include "parallel/graph/graph.h"

namespace trireme {

struct ExampleSizes {
  int64_t hidden = 8, heads = 4, kv_heads = 2, head_dim = 4, ffn = 16, vocabulary = 32;
  bool tied = false;
};

// One decoder layer per entry, with that multiple of the given ffn size.
inline LayerGraph ExampleGraph(const ExampleSizes& sizes, const std::vector<int>& ffn_times) {
  LayerGraph graph{.family = "example", .layers = {}};
  graph.layers.push_back({"embedding", EmbeddingSpec{sizes.vocabulary, sizes.hidden}, {{"embedding.weight", "embed"}}});
  for (size_t i = 0; i < ffn_times.size(); ++i) {
    DecoderSpec spec;
    spec.attention = {.hidden = sizes.hidden,
                      .heads = sizes.heads,
                      .kv_heads = sizes.kv_heads,
                      .head_dim = sizes.head_dim,
                      .rope = {}};
    spec.mlp = {.hidden = sizes.hidden, .ffn = sizes.ffn * ffn_times[i]};
    const std::string name = "layers." + std::to_string(i);
    HfNames names;
    for (const char* role : {"attention_norm", "attention.q", "attention.k", "attention.v", "attention.output",
                             "mlp_norm", "mlp.gate", "mlp.up", "mlp.down"}) {
      names[std::string(role) + ".weight"] = name + role;
    }
    graph.layers.push_back({name, spec, names});
  }
  graph.layers.push_back({"head",
                          HeadSpec{sizes.vocabulary, sizes.hidden, 1e-6, sizes.tied},
                          {{"norm.weight", "norm"}, {"logits.weight", "logits"}}});
  return graph;
}

// Replaces the mlp of layer `index` with experts.
inline void PutExperts(LayerGraph& graph, size_t index, const ExpertsSpec& experts) {
  Layer& layer = graph.layers.at(index);
  std::get<DecoderSpec>(layer.spec).experts = experts;
  layer.hf_names["router.weight"] = layer.name + ".router";
  for (const char* role : {"gate", "up", "down"}) {
    const std::string part = role;
    layer.hf_names["experts." + part + ".weight"] = layer.name + ".{expert}." + part;
  }
}

// Adds a multi-token prediction layer like the last decoder layer, not used by default.
inline void OfferMtp(LayerGraph& graph) {
  const Layer& last = graph.layers[graph.layers.size() - 2];
  const std::string name = "mtp." + std::to_string(graph.mtp.size() + 1);
  Layer layer{name, MtpSpec{std::get<DecoderSpec>(last.spec), static_cast<int64_t>(graph.mtp.size()) + 1},
              last.hf_names};
  for (auto& [role, file] : layer.hf_names) file = name + "." + role;
  for (const char* role : {"embedding_norm", "hidden_norm", "join", "norm", "embedding", "logits"}) {
    layer.hf_names[std::string(role) + ".weight"] = name + "." + role;
  }
  graph.unused.push_back(name + ".");
  graph.mtp.push_back(layer);
}

// Hidden 768, 12 layers, 12 heads of 64, 4 key-value heads, ffn 2304, vocabulary 32000.
inline LayerGraph Graph107M(bool tied = true) {
  return ExampleGraph(
      {.hidden = 768, .heads = 12, .kv_heads = 4, .head_dim = 64, .ffn = 2304, .vocabulary = 32000, .tied = tied},
      std::vector<int>(12, 1));
}

}  // namespace trireme
