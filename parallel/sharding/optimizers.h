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
// States that any optimizer may have beside its own.
struct FurtherStates {
  bool averaged = false;  // the moving average of the weights: kAveraged
  bool initial = false;   // the weights before the first update: kInitial
};
inline constexpr char kAveraged[] = "ema", kInitial[] = "initial";

// Optimizers that work on whole tensors (whole_tensors.h): those with states that belong to a tensor, not to its
// elements.
bool UpdatesWholeTensors(const std::string& name, bool moments_8bit);
// Their names in checkpoints; a tensor has some of them.
std::vector<std::string> WholeStates(const std::string& name, bool moments_8bit);

// "exp_avg", …: each has an fp32 element per parameter element. Refuses a name that is not in the list.
std::vector<std::string> OptimizerStates(const std::string& name, const FurtherStates& further = {});

}  // namespace trireme
