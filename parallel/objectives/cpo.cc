// CPO and SimPO: pairs by the policy's log-probabilities alone, with the chosen answers' likelihood. No reference.
#include <algorithm>
#include <memory>

#include "parallel/objectives/pair_objective.h"

namespace trireme {
namespace {

std::unique_ptr<Objective> Make(const PreferenceConfig& config, const std::string& otherwise) {
  std::vector<WeightedPairLoss> losses = LossesOf(config, CpoLosses(), otherwise);
  const bool means = std::ranges::all_of(losses, [](const WeightedPairLoss& loss) { return loss.loss.means; });
  return std::make_unique<PairObjective>(PairObjectiveOptions{
      .losses = std::move(losses), .how = PairLossOptionsOf(config), .nll_weight = config.cpo_alpha(), .means = means});
}

}  // namespace

std::unique_ptr<Objective> MakeCpo(const Config& config) { return Make(config.preference(), "sigmoid"); }
std::unique_ptr<Objective> MakeSimPo(const Config& config) { return Make(config.preference(), "simpo"); }

}  // namespace trireme
