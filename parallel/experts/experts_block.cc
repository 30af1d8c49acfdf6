#include "parallel/experts/experts_block.h"

#include "ops/router.h"
#include "ops/weighted_swiglu.h"

namespace trireme {

at::Tensor ExpertsBlock::Forward(const LinearInput& x, const at::Tensor& real) const {
  const Routing routing = ChooseExperts(RouterLogits(x, weights_.router), spec_.router,
                                        weights_.bias == nullptr ? at::Tensor() : weights_.bias->value);
  const at::Tensor chosen = routing.experts.masked_fill(real.logical_not().unsqueeze(1), -1);
  const auto way = std::make_shared<const Dispatch>(chosen, spec_.router.experts, parallel_);
  const at::Tensor rows = Dispatch::ToExperts(way, x.value);
  const at::Tensor weights = Dispatch::WeightsToExperts(way, routing.weights);
  return Dispatch::FromExperts(way, Mlps(rows, weights, way->ends()));
}

at::Tensor ExpertsBlock::Mlps(const at::Tensor& rows, const at::Tensor& weights,
                              const GroupEnds& ends) const {
  const at::Tensor gate_up = GroupedLinear(rows, weights_.gate_up, ends);
  LinearInput activated(WeightedSwiGlu(gate_up, weights));
  if (recompute_) {
    activated.again = [gate_up = gate_up.detach(), weights = weights.detach()] {
      return WeightedSwiGluAgain(gate_up, weights);
    };
  }
  return GroupedLinear(activated, weights_.down, ends);
}

}  // namespace trireme
