// Weights: the local parameters of this rank's layers, declared and found by name. Without memory: a bucket
// (parallel/sharding/bucket.h) allocates values and gradients.
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

  Weights(const LayerGraph& graph, const std::vector<Layer>& layers, const Grids& grids, const TensorSplit& split);

  // Entries never move: operators and buckets keep pointers to them.
  const std::deque<Entry>& entries() const { return entries_; }
  std::deque<Entry>& entries() { return entries_; }
  // Those of one layer, in their order.
  std::vector<Entry*> EntriesOf(const std::string& layer);
  const Weight& Find(const std::string& name) const;
  const Weight* FindOrNull(const std::string& name) const;
  const Entry* FindEntry(const std::string& name) const;  // nullptr: no such weight on this rank

 private:
  std::deque<Entry> entries_;
  std::map<std::string, std::vector<Entry*>> by_layer_;
  std::map<std::string, const Entry*> by_name_;
};

}  // namespace trireme
