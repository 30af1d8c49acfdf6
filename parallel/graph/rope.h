// Rotary frequencies that depend on how long a sequence is. A sequence is a document, packed or not, or a row that is
// being generated: what else is in its batch never decides. The specification is RopeSpec; tables of cosine and sine
// are parallel/pass/rotation.h.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/graph/graph.h"
#include "parallel/graph/specs.h"

namespace trireme {

// The longest sequence with the frequencies of all shorter ones; 0: the length does not matter.
int64_t LengthLimit(const RopeSpec& rope);

// The same number for lengths with the same frequencies; 0 up to the limit.
int64_t LengthClass(const RopeSpec& rope, int64_t length);

// Radians per position of a sequence of `length` tokens: [rotary_dim / 2]. InverseFrequencies(rope) are those of short
// ones.
std::vector<double> InverseFrequencies(const RopeSpec& rope, int64_t length);

// The rotary embedding of the graph's layers that depends on the length; nullptr: none does. All that do are equal.
const RopeSpec* LengthDependentRope(const LayerGraph& graph);

}  // namespace trireme
