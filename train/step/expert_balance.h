// ExpertBalance: how evenly routers used their experts: how many tokens every expert of every layer got, how
// confident routers were, what was dropped, and which rank had the most work. Counts over all ranks; the
// object for log.jsonl, and a heat map. No tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "parallel/graph/graph.h"

namespace trireme {

struct ExpertLayer {
  std::string name;
  int64_t experts = 0;
};

// Those layers of the model that have experts, in order.
std::vector<ExpertLayer> ExpertLayers(const LayerGraph& graph);

struct LayerBalance {         // sums over tokens
  std::vector<int64_t> rows;  // [experts]; empty: none
  double tokens = 0;
  double dropped = 0;
  double entropy = 0;
  double balance_loss = 0;
  double z_loss = 0;
};

class ExpertBalance {
 public:
  ExpertBalance() = default;
  ExpertBalance(std::vector<ExpertLayer> layers, int world);

  bool empty() const { return layers_.empty(); }
  void Add(const std::string& layer, const LayerBalance& sums);
  // All numbers in one vector, to be summed over ranks and restored: of a layer [experts] rows, tokens, dropped,
  // entropy, balance loss, z-loss; of a rank the rows per layer that it received, plus one if it has experts.
  const std::vector<float>& flat() const { return flat_; }
  void SetFlat(std::span<const float> sums) { flat_.assign(sums.begin(), sums.end()); }
  int64_t offset_of(const std::string& layer) const { return static_cast<int64_t>(Begin(layer)); }
  int64_t offset_of_rank(int rank) const { return static_cast<int64_t>(ranks_begin_) + rank; }
  // Adds another step's numbers.
  void Join(const ExpertBalance& step);

  std::vector<float> RowsOf(const std::string& layer) const;  // [experts]
  double drop_rate() const;                                   // as a fraction of all choices
  double entropy() const;                                     // mean over all tokens and layers, in nats
  double balance_loss() const;                                // sum over layers
  double z_loss() const;
  Json ToJson() const;
  // Layers down, experts across; white is the mean, red more, blue less.
  std::string HeatMap() const;

 private:
  size_t Begin(const std::string& layer) const;
  double SumOf(int number) const;

  std::vector<ExpertLayer> layers_;
  std::vector<size_t> begins_;  // offsets of each layer's numbers
  size_t ranks_begin_ = 0;
  std::vector<float> flat_;
};

}  // namespace trireme
