// Verifier: proves a table correct before any device runs it, or reports what is wrong with it.
#pragma once

#include <optional>
#include <string>

#include "parallel/schedule/schedule.h"

namespace trireme {

// The first fault found, or nullopt. Rules for each rank by itself:
//   every micro batch passes every chunk exactly once forward, once for its input gradient, once for its
//   weight gradient, in that order; nothing is used before it is computed here or received, nothing sent
//   before it is computed; a batch holds messages only, one per peer and direction; parameters are gathered
//   before use and freed afterwards, gradients reduced after the last weight gradient. A forward-only table
//   has no gradients.
// Between ranks, under the strictest rule (a send completes only when its receive is posted, a batch only
// when all its messages have): messages of a pair match in order, and no rank waits forever.
std::optional<std::string> FindFault(const Schedule& schedule);

// The two halves.
std::optional<std::string> FindRankFault(const Schedule& schedule, int rank);
std::optional<std::string> FindMessageFault(const Schedule& schedule);

}  // namespace trireme
