#include "ops/gated_delta/delta_chunks.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace trireme {

DeltaChunks CutIntoChunks(const std::vector<DeltaRun>& runs, int64_t tokens, int64_t size) {
  DeltaChunks cut{.tokens = tokens};
  cut.order.resize(runs.size());
  std::iota(cut.order.begin(), cut.order.end(), int64_t{0});
  const auto length = [&](int64_t run) {
    return runs[static_cast<size_t>(run)].prefix() + runs[static_cast<size_t>(run)].size();
  };
  std::stable_sort(cut.order.begin(), cut.order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  const int64_t longest = runs.empty() ? 0 : length(cut.order.front());
  if (longest == 0) return cut;
  cut.size = std::min(size, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest))));
  for (int64_t first = 0; first < longest; first += cut.size) {
    int64_t active = 0;
    for (const int64_t index : cut.order) {
      if (length(index) <= first) break;
      const DeltaRun& run = runs[static_cast<size_t>(index)];
      for (int64_t place = first; place < first + cut.size; ++place) {
        cut.reads.push_back(place < length(index) ? run.TokenAt(place) : tokens);
        cut.writes.push_back(place < run.prefix() ? tokens : cut.reads.back());
      }
      cut.prefixes = cut.prefixes || run.prefix() > 0;
      ++active;
    }
    cut.active.push_back(active);
  }
  return cut;
}

ConvPlaces PlacesInRuns(const std::vector<DeltaRun>& runs, int64_t tokens, int64_t taps) {
  ConvPlaces found{.places = std::vector<int64_t>(static_cast<size_t>(tokens), 0),
                   .reaches = std::vector<ConvPlaces::Reach>(static_cast<size_t>(taps))};
  for (const DeltaRun& run : runs) {
    std::iota(found.places.begin() + run.begin, found.places.begin() + run.end, int64_t{0});
    for (int64_t back = 1; back < taps; ++back) {
      for (int64_t place = 0; place < std::min(back, run.size()); ++place) {
        if (run.prefix() + place < back) continue;
        ConvPlaces::Reach& reach = found.reaches[static_cast<size_t>(back)];
        reach.tokens.push_back(run.begin + place);
        reach.sources.push_back(run.prefix_end + place - back);
      }
    }
  }
  return found;
}

}  // namespace trireme
