// LayerWork: what a layer has to do on one rank under a split, read from the layer graph: matrix products with their
// local sizes, attention, elements moved by other operators, parameters. No time and no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/grids.h"
#include "parallel/graph/graph.h"
#include "parallel/graph/layer_block.h"
#include "parallel/graph/parameters.h"

namespace trireme {

// y = x Wᵀ with W [outputs, inputs] as the rank holds it.
struct Product {
  enum class Rows { kTokens, kTokensBetween, kExperts, kPatches };
  Rows rows = Rows::kTokens;
  int64_t outputs = 0;
  int64_t inputs = 0;
  int64_t count = 1;          // alike: a rank's experts
  bool trained = true;        // has a weight gradient
  bool adds_outputs = false;  // to what another product has written, as an adapter does,
  bool adds_inputs = false;   // and its input gradient
  double packed_bytes = 0;    // per element, where the weight is decoded before it is used; 0: it is not
};

struct LayerWork {
  std::vector<Product> products;
  int64_t dense = 0, experts = 0;                  // parameters of the rank
  int64_t trained_dense = 0, trained_experts = 0;  // of these
  bool has_tensor_blocks = false;                  // attention and mlp, around which tensor-parallel ranks exchange
  bool mlp_is_split = false;                       // the second block is a plain or shared mlp
};

// `sizes` must divide what the layer has: refused with the numbers.
LayerWork WorkOf(const LayerGraph& graph, const Layer& layer, const TensorSplit& split);

}  // namespace trireme
