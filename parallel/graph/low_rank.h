// The low-rank pairs beside a weight, declared from the weight's own declaration: where the weight is split,
// its pairs are split in the same way, and what a rank has only a part of follows.
#pragma once

#include <vector>

#include "core/plan/parameter.h"
#include "parallel/graph/graph.h"

namespace trireme {

// `base`: [out, in] or a stack [experts, out, in] whose blocks along `out` are projections; `parts`: one
// entry a block, of rank 0 where it has no pair. First A of all of them, stacked along the rank
// ("NAME.lora_a"), for they read the same input; then each one's B ("NAME.lora_b.0"). NAME is the weight's
// without ".weight".
std::vector<Parameter> LowRankPairs(const Parameter& base, const std::vector<LowRank>& parts);

}  // namespace trireme
