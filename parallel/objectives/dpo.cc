// Direct preference optimisation: the losses of preference.loss relative to a reference. `sft` in the list is the mean
// negative log-likelihood of the chosen answers, as preference.sft_weight is.
#include <memory>

#include "parallel/objectives/pair_objective.h"

namespace trireme {

std::unique_ptr<Objective> MakeDpo(const Config& all) {
  const PreferenceConfig& config = all.preference();
  double nll = config.sft_weight();
  for (int i = 0; i < config.loss_size(); ++i) {
    if (config.loss(i) == "sft") nll += config.weights().empty() ? 1 : config.weights(i);
  }
  return std::make_unique<PairObjective>(PairObjectiveOptions{
      .losses = LossesOf(config, DpoLosses(), "sigmoid"), .how = PairLossOptionsOf(config), .nll_weight = nll});
}

}  // namespace trireme
