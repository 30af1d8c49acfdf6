// The optimizers by name, as plans, checkpoints and help know them. Torch-free: what they compute is in
// update_rule.h.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// "adamw", …
std::vector<std::string> OptimizerNames();
// What each is, in a line, in the same order.
std::vector<std::string> OptimizerMeanings();
// "exp_avg", …: each has an fp32 element per parameter element. Refuses a name that is not in the list. ema: with the average
// of the weights, kAveraged.
std::vector<std::string> OptimizerStates(const std::string& name, bool ema = false);

inline constexpr char kAveraged[] = "ema";

}  // namespace trireme
