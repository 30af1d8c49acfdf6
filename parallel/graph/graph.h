// LayerGraph: a model as a list of layers, each with its specification and the Hugging Face names of its
// weights. A plain value: it can be printed, costs nothing, and is the same for every layout. parameters.h
// lists what each layer holds.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/plan/adapter.h"
#include "core/plan/dtype.h"
#include "core/plan/packed_storage.h"
#include "parallel/graph/specs.h"

namespace trireme {

// A weight's role in its layer ("attention.q.weight") to its name in the files
// ("model.layers.3.self_attn.q_proj.weight").
using HfNames = std::map<std::string, std::string>;

// The LoRA adapter of a projection: y += scale · (x Aᵀ) Bᵀ with A: [rank, in], B: [out, rank].
struct LowRank {
  int64_t rank = 0;
  double scale = 1;
  bool magnitude = false;  // DoRA: the projection has a trained length for each of its outputs
};

struct Layer {
  std::string name;  // "embedding", "layers.3", "mtp.1", "head"
  LayerSpec spec;
  HfNames hf_names;
  // If the graph is tuned (tuning.h): adapters by the projection's role ("attention.q"), and the roles of the
  // other weights that are trained; nullopt: all are.
  std::map<std::string, LowRank> low_rank = {};
  std::optional<std::set<std::string>> trained = {};
  // Further names under which files hold a weight again, by its role.
  std::map<std::string, std::vector<std::string>> repeated = {};
  std::set<std::string> packed = {};  // roles of projections ("attention.q") whose matrices are packed
  std::set<std::string> cast = {};    // of those that are not, but multiplied in e4m3
};

// What a model that sees calls the tokens of images, and what it wants of their patches.
struct ImageInputs {
  int64_t placeholder = 0;  // the token that stands for each feature of an image
  int64_t merge = 2;        // patches per side that become a token
  int64_t elements = 0;     // of a patch
  int64_t tile = 0;         // patches per side of the tiles that images are cut into; 0: images have grids of their own
};

struct LayerGraph {
  std::string family;          // model_type of the config
  DType dtype = DType::kFp32;  // of the weights as published
  double initial_deviation = 0.02;
  std::vector<Layer> layers;                  // vision tower, embedding, decoder layers, mtp layers, head
  std::vector<Layer> mtp = {};                // mtp layers that the model has but does not use (multi_token.h)
  std::vector<std::string> unused = {};       // name prefix of their tensors in files, one each
  std::optional<AdapterPlan> adapter = {};    // if layers have LoRA adapters: what they are together
  std::optional<ImageInputs> images = {};     // of a model that sees
  std::set<std::string> drawn = {};           // tensors that the model's files need not have: initial weights are drawn
  std::optional<PackedStorage> packing = {};  // of the matrices that layers list as packed, or cast
};

// Of the embedding among the layers: 0 unless a vision tower precedes it.
size_t EmbeddingIndex(const LayerGraph& graph);
// The first layer that has something to learn, or the embedding: nothing before it needs a backward pass.
size_t FirstTrained(const LayerGraph& graph);
// Decoder layers, the first ones, that take further features of the vision tower.
int64_t TapsIn(const LayerGraph& graph);
int64_t DecodersIn(const LayerGraph& graph);  // not counting mtp layers
int64_t VocabularyOf(const LayerGraph& graph);
int64_t HiddenOf(const LayerGraph& graph);  // size of the activations between layers

// One line per layer, with its sizes.
std::string ToText(const LayerGraph& graph);

}  // namespace trireme
