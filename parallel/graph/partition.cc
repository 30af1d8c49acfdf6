// Dynamic programming over (stages left, first layer left), twice: first to minimise the largest stage, then,
// within that bound, to find the most even layout.
#include "parallel/graph/partition.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/graph/costs.h"

namespace trireme {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Sums of squares round differently on different machines: smaller differences count as equal.
constexpr double kTie = 1e-9;

// The first stage's last layer at least: the embedding, or the last decoder layer that takes image features, which come
// through the embedding.
size_t LastOfFirst(const LayerGraph& graph) { return EmbeddingIndex(graph) + static_cast<size_t>(TapsIn(graph)); }

// Layers that belong together count as one: those up to LastOfFirst, and those after the decoder layers with the head.
class Balance {
 public:
  Balance(const LayerGraph& graph, int stages, int64_t length)
      : all_(graph.layers.size()),
        joined_(LastOfFirst(graph)),
        stages_(static_cast<size_t>(stages)),
        costs_(static_cast<size_t>(DecodersIn(graph) - TapsIn(graph)) + 3, 0) {
    for (size_t i = 0; i < all_; ++i) {
      const double cost = ForwardFlops(graph.layers[i], length);
      const size_t unit = i <= joined_ ? 0 : std::min(i - joined_, layers() - 1);
      costs_[unit + 1] += cost;
    }
    for (size_t i = 1; i < costs_.size(); ++i) costs_[i] += costs_[i - 1];
  }

  std::vector<StageLayers> Solve() {
    const auto largest = [](double stage, double rest) { return std::max(stage, rest); };
    bound_ = kImpossible;
    bound_ = Fill(largest)[stages_][0];
    const auto squares = [](double stage, double rest) { return stage * stage + rest; };
    std::vector<StageLayers> result = Trace(Fill(squares), squares);
    for (StageLayers& stage : result) {
      stage.begin = stage.begin == 0 ? 0 : stage.begin + joined_;
      stage.end += joined_;
    }
    result.back().end = all_;
    return result;
  }

 private:
  using Table = std::vector<std::vector<double>>;  // [stages left][first layer left]: the best for the rest

  double Cost(size_t begin, size_t end) const { return costs_[end] - costs_[begin]; }
  size_t layers() const { return costs_.size() - 1; }

  template <typename Join>
  double Best(const Table& table, size_t left, size_t begin, Join join) const {
    double best = kImpossible;
    for (size_t end = begin + 1; end <= layers(); ++end) {
      if (Cost(begin, end) > bound_) break;
      best = std::min(best, join(Cost(begin, end), table[left - 1][end]));
    }
    return best;
  }

  template <typename Join>
  Table Fill(Join join) const {
    Table table(stages_ + 1, std::vector<double>(layers() + 1, kImpossible));
    table[0][layers()] = 0;
    for (size_t left = 1; left <= stages_; ++left) {
      for (size_t begin = 0; begin < layers(); ++begin) table[left][begin] = Best(table, left, begin, join);
    }
    return table;
  }

  // From the first stage on, the shortest stage that still reaches the optimum.
  template <typename Join>
  std::vector<StageLayers> Trace(const Table& table, Join join) const {
    std::vector<StageLayers> result;
    size_t begin = 0;
    for (size_t left = stages_; left > 0; --left) {
      const double wanted = table[left][begin] * (1 + kTie);
      size_t end = begin + 1;
      while (Cost(begin, end) > bound_ || join(Cost(begin, end), table[left - 1][end]) > wanted) ++end;
      result.push_back({begin, end});
      begin = end;
    }
    return result;
  }

  size_t all_;
  size_t joined_;  // layers that the first one is joined with
  size_t stages_;
  std::vector<double> costs_;  // [layers + 1] prefix sums
  double bound_ = kImpossible;
};

std::vector<StageLayers> AsSaid(const LayerGraph& graph, int stages, const std::vector<int>& said) {
  const int64_t decoders = DecodersIn(graph);
  const std::string key = Concat("parallel.stage_layers = [", Join(said), "]");
  const auto count = static_cast<int>(said.size());
  if (count != stages) {
    throw InputError(key, " lists ", Counted(count, "stage"), "; parallel.pipeline and virtual_stages make ", stages,
                     "; write one number per stage");
  }
  for (int stage = 0; stage < stages; ++stage) {
    const bool outer = stage == 0 || stage == stages - 1;
    if (said[stage] >= (outer ? 0 : 1)) continue;
    throw InputError(key, ": stage ", stage, " has ", said[stage], " layers; wanted at least ",
                     outer ? "0" : "1; only the first and the last stage may have none");
  }
  if (said.front() < TapsIn(graph)) {
    throw InputError(key, ": the first stage has ", said.front(),
                     " decoder layers; the vision tower's features are added to ", "the outputs of the first ",
                     TapsIn(graph), ", which must be there; wanted at least ", TapsIn(graph));
  }
  const int64_t sum = std::accumulate(said.begin(), said.end(), int64_t{0});
  if (sum != decoders) {
    throw InputError(key, " adds up to ", sum, " decoder layers; the model has ", decoders,
                     "; write numbers that add up to ", decoders);
  }
  std::vector<StageLayers> result;
  size_t begin = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const size_t before = stage == 0 ? EmbeddingIndex(graph) + 1 : 0;
    result.push_back({begin, begin + before + static_cast<size_t>(said[stage])});
    begin = result.back().end;
  }
  result.back().end = graph.layers.size();
  return result;
}

}  // namespace

std::vector<StageLayers> PartitionLayers(const LayerGraph& graph, int stages, const std::vector<int>& explicit_layers,
                                         int64_t length) {
  TRIREME_CHECK(graph.layers.size() >= 2 && stages >= 1) << graph.layers.size() << " layers, " << stages << " stages";
  const auto decoders = static_cast<int>(DecodersIn(graph));
  if (!explicit_layers.empty()) return AsSaid(graph, stages, explicit_layers);
  if (stages > decoders && stages > 1) {
    throw InputError(stages, " stages (parallel.pipeline and virtual_stages) for ", decoders,
                     " decoder layers; lower them to at most ", decoders, " stages");
  }
  const int64_t taps = TapsIn(graph);
  if (taps > 0 && stages - 1 > decoders - taps) {
    throw InputError(stages, " stages (parallel.pipeline and virtual_stages) for ", decoders,
                     " decoder layers, of which the ", "first ", taps,
                     " take image features and stay together in the first stage; lower them to at most ",
                     decoders - taps + 1, " stages");
  }
  return Balance(graph, stages, length).Solve();
}

std::string LayersText(const LayerGraph& graph, const StageLayers& stage) {
  std::vector<std::string> names;
  for (size_t i = stage.begin; i < stage.end;) {
    size_t last = i;
    // Of a series: decoder layers, or blocks of a vision tower.
    const auto kind = [&](size_t at) -> size_t {
      const size_t found = at < stage.end ? graph.layers[at].spec.index() : 0;
      return found == LayerSpec(DecoderSpec()).index() || found == LayerSpec(VisionSpec()).index() ? found : 0;
    };
    while (kind(i) != 0 && kind(last + 1) == kind(i)) ++last;
    const std::string& name = graph.layers[last].name;
    names.push_back(graph.layers[i].name + (last > i ? "-" + name.substr(name.rfind('.') + 1) : ""));
    i = last + 1;
  }
  return Join(names);
}

}  // namespace trireme
