// LayerGraph: a model as a list of layers, each with its specification and the Hugging Face names of its
// weights. A plain value: it prints, it costs nothing, it is the same for every layout. parameters.h says
// what each layer holds.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/plan/adapter.h"
#include "core/plan/dtype.h"
#include "parallel/graph/specs.h"

namespace trireme {

// A weight's role in its layer ("attention.q.weight") to its name in the files
// ("model.layers.3.self_attn.q_proj.weight").
using HfNames = std::map<std::string, std::string>;

// A low-rank pair beside a projection: y += scale · (x Aᵀ) Bᵀ with A: [rank, in], B: [out, rank].
struct LowRank {
  int64_t rank = 0;
  double scale = 1;
};

struct Layer {
  std::string name;  // "embedding", "layers.3", "mtp.1", "head"
  LayerSpec spec;
  HfNames hf_names;
  // Where the graph is tuned (tuning.h): pairs by the projection's role ("attention.q"), and the roles of the
  // weights that are trained beside them; nothing: all are.
  std::map<std::string, LowRank> low_rank = {};
  std::optional<std::set<std::string>> trained = {};
  // Names under which files have a weight once more, by its role.
  std::map<std::string, std::vector<std::string>> repeated = {};
};

struct LayerGraph {
  std::string family;          // model_type of the config
  DType dtype = DType::kFp32;  // of the weights as published
  double initial_deviation = 0.02;
  std::vector<Layer> layers;    // embedding first, head last, layers of multi-token prediction before it
  std::vector<Layer> mtp = {};  // such layers that the model has and nothing uses (multi_token.h)
  std::vector<std::string> unused = {};     // how names of their tensors begin in files, one for each
  std::optional<AdapterPlan> adapter = {};  // where its layers have low-rank pairs: what they are of
};

int64_t DecodersIn(const LayerGraph& graph);  // layers without those of multi-token prediction
int64_t VocabularyOf(const LayerGraph& graph);
int64_t HiddenOf(const LayerGraph& graph);  // size of the activations between layers

// One line a layer with its sizes.
std::string ToText(const LayerGraph& graph);

}  // namespace trireme
