// Search: all layouts of a model on a number of ranks that fit into memory, the fastest first. Nothing is sampled: a
// layout is left out only where a bound proves that it is slower than those found, or does not fit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "cost/step_model.h"

namespace trireme {

struct SearchOptions {
  int best = 10;                 // how many layouts to find
  std::vector<std::string> fix;  // "parallel.tensor=8": keys that keep this value
  bool prune = true;             // false: the whole enumeration, for tests
};

struct FoundLayout {
  Layout layout;
  StepEstimate step;
};

struct SearchResult {
  std::vector<FoundLayout> found;  // best first
  int64_t considered = 0;          // layouts that the sizes allow
  int64_t timed = 0;               // of which the schedule was run
};

// A world that no layout fits is an input error: what is short, by how much.
SearchResult SearchLayouts(const Config& config, const LayerGraph& graph, const DeviceRates& device,
                           const Assumptions& assumptions, int world, const SearchOptions& options);

const char* RecomputeName(Recompute recompute);  // as the key spells it

// The estimate with the sections parallel, memory and run that make it.
Json ToJson(const FoundLayout& found, const Config& config);
// A table, the best one's parallel: section, and why the next one is slower.
std::string ToText(const SearchResult& result, const Config& config, const DeviceRates& device, int world);

}  // namespace trireme
