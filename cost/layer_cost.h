// LayerCost: seconds that one layer takes on one rank for one micro batch: its forward pass, its input gradient and its
// weight gradient, each by where the time goes. Sums of action times; no pipeline and no data parallelism.
#pragma once

#include "core/config.pb.h"
#include "cost/assumptions.h"
#include "cost/device.h"
#include "cost/links.h"
#include "cost/work.h"

namespace trireme {

struct PassParts {  // seconds
  double products = 0;
  double attention = 0;
  double rest = 0;
  double tensor = 0;
  double context = 0;
  double expert = 0;

  double total() const { return products + attention + rest + tensor + context + expert; }
  void Add(const PassParts& other, double times = 1);
  bool operator==(const PassParts&) const = default;
};

struct LayerCost {
  PassParts forward, input, weight;
};

// What a layer sees of the layout.
struct LayerLayout {
  int tensor = 1;
  bool sequence = true;
  int context = 1;
  int ulysses = 1;  // of the context ranks; the rest is a ring
  int expert = 1;
  int expert_tensor = 1;
  int micro_batch = 1;
  int64_t length = 1;  // tokens of a sequence, over all context ranks
  double element_bytes = 2;
  auto operator<=>(const LayerLayout&) const = default;
};

class LayerPricer {
 public:
  LayerPricer(const DeviceRates& device, const Assumptions& assumptions)
      : device_(device), assumptions_(assumptions), links_(device) {}

  // differentiated: a layer before it, or it itself, is trained.
  LayerCost Price(const Layer& layer, const LayerWork& work, const LayerLayout& layout, Recompute recompute,
                  bool differentiated) const;

  // One of [m, k] x [k, n], `count` times side by side.
  double ProductSeconds(double m, double n, double k, double count, bool fp8) const;

 private:
  ActivationShape ShapeOf(const LayerLayout& layout) const;
  void AddProducts(const Layer& layer, const LayerWork& work, const LayerLayout& layout, LayerCost& cost) const;
  void AddAttention(const Layer& layer, const LayerLayout& layout, LayerCost& cost) const;
  void AddContext(const Layer& layer, const LayerLayout& layout, LayerCost& cost) const;
  void AddTensor(const Layer& layer, const LayerWork& work, const LayerLayout& layout, LayerCost& cost) const;
  void AddExperts(const Layer& layer, const LayerLayout& layout, LayerCost& cost) const;
  double RowsOf(const Product& product, const Layer& layer, const LayerLayout& layout) const;

  const DeviceRates& device_;
  const Assumptions& assumptions_;
  Links links_;
};

}  // namespace trireme
