// Views of other rows, none of which stores a token: subsets, concatenations, weighted blends,
// limited in length, packed. The result is a function of the options alone, so any rank finds any row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/rows.h"

namespace trireme {

using Rows = std::shared_ptr<const RowSource>;

// The rows at the given indices, in that order; an index may be repeated.
Rows TakeRows(Rows rows, std::vector<int64_t> indices);

// Concatenated.
Rows JoinRows(std::vector<Rows> parts);

// As many rows as all parts have together, blended by weight: position i goes to the part that is furthest
// behind its share of the first i positions, ties to the earlier part; a part restarts where it ends.
// This is the rule of Megatron's blended datasets.
Rows BlendRows(std::vector<Rows> parts, const std::vector<double>& weights);

// `count` different rows drawn from the seed; if there are fewer, all of them are repeated first.
Rows SampleRows(Rows rows, int64_t count, uint64_t seed, const std::string& name);

struct SplitRows {
  Rows train, valid;
};
// Holds out a fraction of the rows, drawn from the seed; at least one if the fraction is not 0, and never
// all.
SplitRows SetAside(Rows rows, double share, uint64_t seed);

enum class OverLength { kDrop, kTruncate, kSplit };

// Rows of at most `longest` tokens, of which at least one is trained.
Rows LimitLength(Rows rows, int64_t longest, OverLength policy);

// Several rows in one of at most `longest` tokens, best fit decreasing: the longest first, each where the
// least room is left. No row may be longer than that.
Rows PackRows(Rows rows, int64_t longest);

}  // namespace trireme
