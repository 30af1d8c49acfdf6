#include "train/step/row_sharing.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

std::vector<int64_t> Numbers(size_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

// The places of each rank in a step.
std::vector<std::vector<int64_t>> PlacesOf(size_t rows, const RowShares& shares) {
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(shares.data_size));
  for (const int64_t place : Numbers(rows)) places[static_cast<size_t>(shares.RankAt(place))].push_back(place);
  return places;
}

}  // namespace

std::vector<int64_t> OrderByCost(std::span<const double> costs, const RowShares& shares) {
  std::vector<int64_t> dearest_first = Numbers(costs.size());
  std::stable_sort(dearest_first.begin(), dearest_first.end(),
                   [&](int64_t a, int64_t b) { return costs[a] > costs[b]; });
  const std::vector<std::vector<int64_t>> places = PlacesOf(costs.size(), shares);
  std::vector<double> load(places.size(), 0);
  std::vector<size_t> taken(places.size(), 0);
  std::vector<int64_t> order(costs.size());
  for (const int64_t row : dearest_first) {
    size_t best = places.size();
    for (size_t rank = 0; rank < places.size(); ++rank) {
      if (taken[rank] == places[rank].size()) continue;
      if (best == places.size() || load[rank] < load[best]) best = rank;
    }
    order[static_cast<size_t>(places[best][taken[best]++])] = row;
    load[best] += costs[row];
  }
  return order;
}

double ImbalanceOf(std::span<const double> costs, std::span<const int64_t> order, const RowShares& shares) {
  std::vector<double> load(static_cast<size_t>(shares.data_size), 0);
  for (size_t place = 0; place < order.size(); ++place) {
    load[static_cast<size_t>(shares.RankAt(static_cast<int64_t>(place)))] += costs[order[place]];
  }
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  return sum > 0 ? *std::max_element(load.begin(), load.end()) * shares.data_size / sum : 1;
}

StepRows ShareByCost(std::span<const int64_t> drawn, const RowSource& rows, const LayerGraph& graph,
                     const RowShares& shares) {
  std::vector<double> costs;
  for (const int64_t row : drawn) costs.push_back(ModelFlops(graph, rows.Extent(row)));
  StepRows step{.rows = {}, .places = OrderByCost(costs, shares)};
  for (const int64_t place : step.places) step.rows.push_back(drawn[static_cast<size_t>(place)]);
  step.imbalance = ImbalanceOf(costs, step.places, shares);
  step.imbalance_in_order = ImbalanceOf(costs, Numbers(costs.size()), shares);
  return step;
}

}  // namespace trireme
