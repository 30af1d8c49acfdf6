// ORPO: the likelihood of the chosen answer, and its odds against the rejected one's. No reference.
#include <memory>

#include "parallel/objectives/pair_objective.h"

namespace trireme {

std::unique_ptr<Objective> MakeOrpo(const ObjectiveOptions& options) {
  return std::make_unique<PairObjective>(
      PairObjectiveOptions{.how = options.answers.pair, .nll_weight = 1, .odds = true, .means = true});
}

}  // namespace trireme
