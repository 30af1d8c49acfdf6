#include "parallel/context/segments.h"

#include <algorithm>

namespace trireme {
namespace {

struct Holding {                  // by token of the micro batch
  std::vector<int64_t> document;  // -1: padding
  std::vector<int64_t> first;     // by document, its first token
};

Holding DocumentsOf(const ContextPlan& plan) {
  Holding found;
  found.document.assign(plan.documents().size() * static_cast<size_t>(plan.length()), -1);
  int64_t row = 0;
  for (const std::vector<Document>& documents : plan.documents()) {
    for (const Document& document : documents) {
      const auto begin = found.document.begin() + row;
      std::fill(begin + document.begin, begin + document.end, std::ssize(found.first));
      found.first.push_back(row + document.begin);
    }
    row += plan.length();
  }
  return found;
}

// By document, its segments on all ranks, in order.
std::vector<std::vector<Segment>> ChainsOf(const ContextPlan& plan, const Holding& holding, int ranks) {
  std::vector<std::vector<Segment>> chains(holding.first.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> tokens = plan.TokensOf(rank);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t document = holding.document[static_cast<size_t>(tokens[i])];
      if (document < 0) continue;
      std::vector<Segment>& chain = chains[static_cast<size_t>(document)];
      const auto here = static_cast<int64_t>(i);
      const bool was_last = !chain.empty() && chain.back().rank == rank && chain.back().end == here;
      if (!was_last || tokens[i] != tokens[i - 1] + 1) {
        const int64_t place = tokens[i] - holding.first[static_cast<size_t>(document)];
        chain.push_back({.rank = rank, .begin = here, .end = here, .place = place});
      }
      ++chain.back().end;
    }
  }
  for (auto& chain : chains) std::ranges::sort(chain, {}, &Segment::place);
  return chains;
}

// The tokens before each segment of a chain, at most `reach`, nearest last.
void AddBorders(const std::vector<Segment>& chain, int rank, int64_t reach, std::vector<std::vector<int64_t>>& given,
                SegmentPlan& plan, std::vector<std::pair<int, int64_t>>& taken) {
  for (const Segment& segment : chain) {
    const auto begin = std::ssize(taken);
    for (int64_t place = std::max<int64_t>(segment.place - reach, 0); place < segment.place; ++place) {
      const auto after = std::ranges::upper_bound(chain, place, {}, &Segment::place);
      const Segment& owner = *std::prev(after);
      auto& of_owner = given[static_cast<size_t>(owner.rank)];
      if (segment.rank == rank) taken.emplace_back(owner.rank, std::ssize(of_owner));
      of_owner.push_back(owner.begin + place - owner.place);
    }
    if (segment.rank == rank) plan.borders[static_cast<size_t>(segment.slot)] = {begin, std::ssize(taken)};
  }
}

}  // namespace

bool HasPrefixes(const ContextPlan& plan) {
  return std::ranges::any_of(plan.documents(), [](const std::vector<Document>& row) {
    return std::ranges::any_of(row, [](const Document& document) { return document.prefix.size() > 0; });
  });
}

SegmentPlan SegmentsOf(const ContextPlan& context, int ranks, int rank, int64_t reach) {
  SegmentPlan plan;
  std::vector<int64_t> slots(static_cast<size_t>(ranks), 0);
  for (std::vector<Segment>& chain : ChainsOf(context, DocumentsOf(context), ranks)) {
    if (chain.size() <= 1) {
      for (const Segment& only : chain) {
        if (only.rank == rank) plan.whole.push_back({only.begin, only.end});
      }
      continue;
    }
    for (Segment& segment : chain) {
      segment.slot = slots[static_cast<size_t>(segment.rank)]++;
      if (segment.rank == rank) plan.mine.push_back(segment);
    }
    plan.chains.push_back(std::move(chain));
  }
  plan.most = *std::ranges::max_element(slots);
  plan.borders.resize(plan.mine.size());
  std::vector<std::vector<int64_t>> given(static_cast<size_t>(ranks));
  std::vector<std::pair<int, int64_t>> taken;  // rank, and which of its given tokens
  for (const auto& chain : plan.chains) AddBorders(chain, rank, reach, given, plan, taken);
  for (const auto& of_rank : given) plan.most_given = std::max(plan.most_given, std::ssize(of_rank));
  for (const auto& [owner, index] : taken) plan.taken.push_back(owner * plan.most_given + index);
  plan.given = std::move(given[static_cast<size_t>(rank)]);
  return plan;
}

}  // namespace trireme
