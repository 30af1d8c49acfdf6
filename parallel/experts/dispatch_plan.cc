#include "parallel/experts/dispatch_plan.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace trireme {
namespace {

int64_t Sum(std::span<const int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

void Append(Parts& parts, int64_t count, int64_t offset) {
  parts.counts.push_back(static_cast<uint64_t>(count));
  parts.offsets.push_back(static_cast<uint64_t>(offset));
}

// From rank-major order (each rank's rows by expert) to expert-major order (each expert's rows by rank).
void Regroup(std::span<const int64_t> counts, const ExpertLayout& layout, int64_t least, ExchangePlan& plan) {
  const int64_t held = layout.held(), first = layout.first();
  std::vector<int64_t> next;  // [ranks, held] where a rank's rows of an expert start
  next.resize(layout.ranks() * held);
  int64_t place = 0;
  for (int64_t expert = 0; expert < held; ++expert) {
    const int64_t first_position = place;
    for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
      next[rank * held + expert] = place;
      place += counts[rank * layout.experts + first + expert];
    }
    place = std::max(place, first_position + least);
    plan.ends.push_back(place);
  }
  plan.held_rows = place;
  plan.regrouped.reserve(plan.received_rows);
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    for (int64_t expert = 0; expert < held; ++expert) {
      const int64_t count = counts[rank * layout.experts + first + expert], begin = next[rank * held + expert];
      for (int64_t i = 0; i < count; ++i) plan.regrouped.push_back(begin + i);
    }
  }
}

}  // namespace

std::vector<int64_t> PositionsByExpert(std::span<const int64_t> chosen, int64_t experts, std::span<int64_t> positions,
                                       int64_t least) {
  std::vector<int64_t> counts(experts, 0);
  for (const int64_t expert : chosen) {
    TRIREME_CHECK(expert >= -1 && expert < experts) << "expert " << expert << " of " << experts;
    if (expert >= 0) ++counts[expert];
  }
  std::vector<int64_t> next(experts, 0);
  for (int64_t expert = 1; expert < experts; ++expert) {
    next[expert] = next[expert - 1] + std::max(counts[expert - 1], least);
  }
  for (size_t i = 0; i < chosen.size(); ++i) positions[i] = chosen[i] < 0 ? -1 : next[chosen[i]]++;
  return counts;
}

void KeepLargest(std::span<int64_t> chosen, std::span<const float> weights, std::span<const int64_t> order,
                 int64_t experts, int64_t capacity) {
  const size_t k = order.empty() ? 1 : chosen.size() / order.size();
  std::vector<std::vector<size_t>> of_expert(experts);
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] >= 0) of_expert[chosen[i]].push_back(i);
  }
  for (std::vector<size_t>& choices : of_expert) {
    if (static_cast<int64_t>(choices.size()) <= capacity) continue;
    std::stable_sort(choices.begin(), choices.end(), [&](size_t a, size_t b) {  // as on a device: no tie is open
      return weights[a] != weights[b] ? weights[a] > weights[b] : order[a / k] < order[b / k];
    });
    for (size_t i = static_cast<size_t>(capacity); i < choices.size(); ++i) chosen[choices[i]] = -1;
  }
}

ExchangePlan PlanExchange(std::span<const int64_t> counts, const ExpertLayout& layout, int64_t least) {
  TRIREME_CHECK(static_cast<int64_t>(counts.size()) == layout.ranks() * layout.experts);
  const int64_t held = layout.held();
  std::vector<int64_t> rows;
  for (int64_t first = 0; first < std::ssize(counts); first += held) {
    rows.push_back(Sum(counts.subspan(static_cast<size_t>(first), static_cast<size_t>(held))));
  }
  ExchangePlan plan = PlanRooms(rows, layout);
  Regroup(counts, layout, least, plan);
  return plan;
}

ExchangePlan PlanRooms(std::span<const int64_t> rooms, const ExpertLayout& layout) {
  TRIREME_CHECK(std::ssize(rooms) == int64_t{layout.ranks()} * layout.expert);
  const auto of = [&](int64_t rank) { return rooms.subspan(rank * layout.expert, layout.expert); };
  const std::span<const int64_t> mine = of(layout.rank);
  ExchangePlan plan{.sent_rows = Sum(mine)};
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const int64_t part = rank / layout.expert_tensor, copy = rank % layout.expert_tensor;
    const int64_t offset = Sum(mine.first(part));
    Append(plan.sent, mine[part], offset);
    Append(plan.returned, mine[part], copy * plan.sent_rows + offset);
    const int64_t arriving = of(rank)[layout.rank / layout.expert_tensor];
    Append(plan.received, arriving, plan.received_rows);
    plan.received_rows += arriving;
  }
  plan.held_rows = plan.received_rows;
  return plan;
}

int64_t RoomFor(int64_t rows) {
  constexpr int64_t kFew = 32;
  return rows + rows / 8 + kFew;
}

}  // namespace trireme
