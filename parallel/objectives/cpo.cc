// CPO and SimPO: pairs by the policy's log-probabilities alone, with the chosen answers' likelihood. No reference.
#include <algorithm>
#include <memory>

#include "parallel/objectives/pair_objective.h"

namespace trireme {
namespace {

std::unique_ptr<Objective> Make(const AnswerLossOptions& options, const std::string& otherwise) {
  std::vector<WeightedPairLoss> losses = LossesOf(options, CpoLosses(), otherwise);
  const bool means = std::ranges::all_of(losses, [](const WeightedPairLoss& loss) { return loss.loss.means; });
  return std::make_unique<PairObjective>(PairObjectiveOptions{
      .losses = std::move(losses), .how = options.pair, .nll_weight = options.cpo_alpha, .means = means});
}

}  // namespace

std::unique_ptr<Objective> MakeCpo(const ObjectiveOptions& options) { return Make(options.answers, "sigmoid"); }
std::unique_ptr<Objective> MakeSimPo(const ObjectiveOptions& options) { return Make(options.answers, "simpo"); }

}  // namespace trireme
