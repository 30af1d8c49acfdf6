// Direct preference optimisation: the losses of preference.loss relative to a reference. `sft` in the list is the mean
// negative log-likelihood of the chosen answers, as preference.sft_weight is.
#include <memory>

#include "parallel/objectives/pair_objective.h"

namespace trireme {

std::unique_ptr<Objective> MakeDpo(const ObjectiveOptions& all) {
  const AnswerLossOptions& options = all.answers;
  double nll = options.sft_weight;
  for (size_t i = 0; i < options.losses.size(); ++i) {
    if (options.losses[i] == "sft") nll += options.weights.empty() ? 1 : options.weights[i];
  }
  return std::make_unique<PairObjective>(PairObjectiveOptions{
      .losses = LossesOf(options, DpoLosses(), "sigmoid"), .how = options.pair, .nll_weight = nll});
}

}  // namespace trireme
