// Verifier: proves a table before any device runs it, or says in one text what is wrong with it.
#pragma once

#include <optional>
#include <string>

#include "parallel/schedule/schedule.h"

namespace trireme {

// The first fault found, or none. Rules, each rank by itself:
//   every micro batch passes every chunk exactly once forward, once for its input, once for its weights, in
//   that order; nothing is used before it was computed here or received, nothing sent before it was made; a
//   batch holds messages only, one a peer and direction; parameters are gathered before use, freed
//   afterwards, gradients reduced after the last weight gradient. A table that is forward only has no
//   gradients at all.
// Between ranks, under the strictest rule (a send ends only when its receive is posted, a batch ends only
// when all its messages have ended): messages of a pair match in order, and no rank waits for ever.
std::optional<std::string> FindFault(const Schedule& schedule);

// The two halves.
std::optional<std::string> FindRankFault(const Schedule& schedule, int rank);
std::optional<std::string> FindMessageFault(const Schedule& schedule);

}  // namespace trireme
