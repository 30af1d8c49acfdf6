#include "parallel/experts/dispatch_plan.h"

#include <numeric>

#include "core/base/error.h"

namespace trireme {
namespace {

int64_t Sum(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void Append(Parts& parts, int64_t count, int64_t offset) {
  parts.counts.push_back(static_cast<uint64_t>(count));
  parts.offsets.push_back(static_cast<uint64_t>(offset));
}

// From one rank after the other, each by expert, to one expert after the other, each by rank.
void Regroup(std::span<const int64_t> counts, const ExpertLayout& layout, ExchangePlan& plan) {
  const int64_t held = layout.held(), first = layout.first();
  std::vector<int64_t> next;  // [ranks, held] where a rank's rows of an expert begin
  next.resize(layout.ranks() * held);
  int64_t place = 0;
  for (int64_t expert = 0; expert < held; ++expert) {
    for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
      next[rank * held + expert] = place;
      place += counts[rank * layout.experts + first + expert];
    }
    plan.ends.push_back(place);
  }
  plan.regrouped.reserve(place);
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    for (int64_t expert = 0; expert < held; ++expert) {
      const int64_t count = counts[rank * layout.experts + first + expert],
                    begin = next[rank * held + expert];
      for (int64_t i = 0; i < count; ++i) plan.regrouped.push_back(begin + i);
    }
  }
}

}  // namespace

std::vector<int64_t> PlacesByExpert(std::span<const int64_t> chosen, int64_t experts,
                                    std::span<int64_t> places) {
  std::vector<int64_t> counts(experts, 0);
  for (const int64_t expert : chosen) {
    TRIREME_CHECK(expert >= -1 && expert < experts) << "expert " << expert << " of " << experts;
    if (expert >= 0) ++counts[expert];
  }
  std::vector<int64_t> next(experts, 0);
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), int64_t{0});
  for (size_t i = 0; i < chosen.size(); ++i) places[i] = chosen[i] < 0 ? -1 : next[chosen[i]]++;
  return counts;
}

ExchangePlan PlanExchange(std::span<const int64_t> counts, const ExpertLayout& layout) {
  TRIREME_CHECK(static_cast<int64_t>(counts.size()) == layout.ranks() * layout.experts);
  const int64_t held = layout.held();
  const auto of = [&](int64_t rank) { return counts.subspan(rank * layout.experts, layout.experts); };
  const std::span<const int64_t> mine = of(layout.rank);
  ExchangePlan plan{.sent_rows = Sum(mine)};
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const int64_t first = rank / layout.expert_tensor * held, copy = rank % layout.expert_tensor;
    const int64_t offset = Sum(mine.first(first)), count = Sum(mine.subspan(first, held));
    Append(plan.sent, count, offset);
    Append(plan.returned, count, copy * plan.sent_rows + offset);
    const int64_t arriving = Sum(of(rank).subspan(layout.first(), held));
    Append(plan.received, arriving, plan.received_rows);
    plan.received_rows += arriving;
  }
  Regroup(counts, layout, plan);
  return plan;
}

}  // namespace trireme
