// Weights: the local parameters of the layers that this rank holds, in memory, by name. Allocates; what fills
// the values and what becomes of the gradients is others' business.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "core/plan/grids.h"
#include "core/tensor/weight.h"
#include "parallel/graph/parameters.h"

namespace trireme {

class Weights {
 public:
  struct Entry {
    Parameter parameter;
    Placement placement;
    Weight weight;
  };

  Weights(const LayerGraph& graph, const std::vector<Layer>& layers, const Grids& grids,
          const TensorSplit& split, at::ScalarType type);

  // Entries stay where they are: operators keep pointers to the weights.
  const std::deque<Entry>& entries() const { return entries_; }
  std::deque<Entry>& entries() { return entries_; }
  const Weight& Find(const std::string& name) const;
  const Weight* FindOrNull(const std::string& name) const;

 private:
  std::deque<Entry> entries_;
  std::map<std::string, const Weight*> by_name_;
};

}  // namespace trireme
