// Rows made of other rows, none of which holds a token: some of them, all of several, shared out by weight,
// cut to a length, packed. What they give is a function of their options alone, so any rank finds any row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/data/rows.h"

namespace trireme {

using Rows = std::shared_ptr<const RowSource>;

// Those of the given indices, in their order; an index may stand there often.
Rows TakeRows(Rows rows, std::vector<int64_t> indices);

// One after the other.
Rows JoinRows(std::vector<Rows> parts);

// As many rows as all parts have together, shared out by weight: place i goes to the part that is furthest
// behind its share of the first i places, the earlier part where two are; a part begins anew where it ends.
// This is the rule of Megatron's blended datasets.
Rows BlendRows(std::vector<Rows> parts, const std::vector<double>& weights);

// `count` different rows drawn from the seed; where there are fewer, all of them again and again first.
Rows SampleRows(Rows rows, int64_t count, uint64_t seed, const std::string& name);

struct SplitRows {
  Rows train, valid;
};
// A share of the rows, drawn from the seed, is set aside; at least one where the share is not 0, and never
// all.
SplitRows SetAside(Rows rows, double share, uint64_t seed);

enum class OverLength { kDrop, kTruncate, kSplit };

// Rows of at most `longest` tokens, of which at least one is trained.
Rows LimitLength(Rows rows, int64_t longest, OverLength policy);

// Several rows in one of at most `longest` tokens, best fit: the longest first, each where the least room is
// left. No row may be longer than that.
Rows PackRows(Rows rows, int64_t longest);

}  // namespace trireme
