// RowAdapters: LoRA adapters by row, for generation: the rows of one pass may use different ones, or none. An
// adapter is low-rank matrices beside the model's weights, found by the matrix they belong to; it is split
// over ranks like the model. Who loads it, and which row uses which, is decided elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/low_rank/low_rank.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/layers/magnitudes.h"
#include "parallel/layers/weights.h"
#include "parallel/pass/pass_context.h"

namespace trireme {

// A matrix of a layer, and the projections fused in it: "layers.3", "attention.qkv", {"attention.q", …}.
struct MatrixRole {
  std::string layer;
  std::string matrix;
  std::vector<std::string> parts;
};

// The adapters that `layer` has for a matrix whose declaration is in `weights`; nothing if it has none.
std::optional<LowRankWeights> FindAdapters(const Layer& layer, const Weights& weights, const MatrixRole& role);

// The magnitudes of its projections, if they have adapters with them (DoRA).
std::vector<MagnitudeBlock> FindMagnitudes(const Weights& weights, const MatrixRole& role);

// One adapter on this rank.
class AdapterWeights {
 public:
  // graph: the model's with the adapter; layers: those of this rank.
  AdapterWeights(const LayerGraph& graph, std::vector<Layer> layers, const Grids& grids, const TensorSplit& split);

  // The adapters' tensors, to be allocated and filled; what else the layers hold has no memory here.
  std::vector<Weights::Entry*> entries();
  // nullptr: the adapter leaves the matrix as it is.
  const LowRankWeights* Find(const MatrixRole& role) const;
  // Whether any layer of the model, also one of another rank, has adapters on its experts.
  bool on_experts() const { return on_experts_; }

 private:
  const std::vector<Layer> layers_;
  Weights weights_;
  bool on_experts_ = false;
  mutable std::map<std::string, std::optional<LowRankWeights>> found_;  // by the matrix's name
};

// Of one pass. Every rank that passes tokens to the same experts lists the same adapters.
struct RowAdapters {
  RowAdapters(std::vector<const AdapterWeights*> adapters, const at::Tensor& adapter_of, at::Device device);

  // By adapter.
  std::vector<const LowRankWeights*> AdaptersOf(const MatrixRole& role) const;

  const std::vector<const AdapterWeights*> adapters;
  const at::Tensor adapter_of;  // [tokens] int64 in host memory: index into `adapters`; -1: none
  const AdapterRows rows;       // the same by adapter
  bool on_experts = false;      // some adapter is on experts, too: what tokens use travels with them
};

// Of a generation pass whose rows use any; nullptr otherwise.
inline const RowAdapters* RowAdaptersOf(const PassContext& pass) {
  return pass.options.cache == nullptr ? nullptr : pass.options.cache->adapters();
}

}  // namespace trireme
