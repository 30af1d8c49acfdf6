// LayerGraph: a model as a list of layers, each with its specification and the Hugging Face names of its
// weights. A plain value: it prints, it costs nothing, it is the same for every layout. parameters.h says
// what each layer holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/plan/dtype.h"
#include "parallel/graph/specs.h"

namespace trireme {

// A weight's role in its layer ("attention.q.weight") to its name in the files
// ("model.layers.3.self_attn.q_proj.weight").
using HfNames = std::map<std::string, std::string>;

struct Layer {
  std::string name;  // "embedding", "layers.3", "head"
  LayerSpec spec;
  HfNames hf_names;
};

struct LayerGraph {
  std::string family;          // model_type of the config
  DType dtype = DType::kFp32;  // of the weights as published
  double initial_deviation = 0.02;
  std::vector<Layer> layers;  // embedding first, head last
  std::vector<std::string> unused =
      {};  // how names of tensors begin that files may have and nothing here takes
};

int64_t VocabularyOf(const LayerGraph& graph);
int64_t HiddenOf(const LayerGraph& graph);  // size of the activations between layers

// One line a layer with its sizes.
std::string ToText(const LayerGraph& graph);

}  // namespace trireme
