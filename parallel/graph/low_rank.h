// The LoRA adapters of a weight, derived from the weight's own declaration: they are split the same way as
// the weight, and their gradients are partial accordingly.
#pragma once

#include <vector>

#include "core/plan/parameter.h"
#include "parallel/graph/graph.h"

namespace trireme {

// `base`: [out, in] or a stack [experts, out, in] whose blocks along `out` are projections; `parts`: one
// entry per block, of rank 0 if it has no adapter, or one for all of them, which are one module in the files. Returns
// first all A, stacked along the rank ("NAME.lora_a"), since they read the same input; then each B ("NAME.lora_b.0"),
// and each magnitude ("NAME.lora_m.0", [out]) if parts have them. NAME is the weight's name without ".weight".
std::vector<Parameter> LowRankAdapters(const Parameter& base, const std::vector<LowRank>& parts);

}  // namespace trireme
