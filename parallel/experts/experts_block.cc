#include "parallel/experts/experts_block.h"

#include "ops/router.h"
#include "ops/weighted_swiglu.h"

namespace trireme {

at::Tensor ExpertsBlock::Forward(const LinearInput& x, const RouterTokens& tokens,
                                 const BesideExperts& beside) const {
  const at::Tensor logits = RouterLogits(x, weights_.router);
  Routing routing =
      ChooseExperts(logits, spec_.router, weights_.bias == nullptr ? at::Tensor() : weights_.bias->value);
  routing.weights = WithRouterLosses(routing, logits, weights_.router, tokens, options_.router,
                                     parallel_.routers, options_.sums);
  const auto way = WayOf(routing, tokens);
  const at::Tensor weights = Dispatch::WeightsToExperts(way, routing.weights);
  const at::Tensor rows = Dispatch::ToExperts(way, x.value, beside.on_the_way);
  return Dispatch::FromExperts(way, Mlps(rows, weights, way->ends()), beside.on_the_way_back);
}

std::shared_ptr<const Dispatch> ExpertsBlock::WayOf(const Routing& routing,
                                                    const RouterTokens& tokens) const {
  const int64_t experts = spec_.router.experts;
  WithinCapacity within{routing.experts.masked_fill(tokens.real.logical_not().unsqueeze(1), -1)};
  const at::Tensor wanted = within.chosen;
  if (options_.router.overflow != ExpertOverflow::kKeep) {
    within =
        DropOverflow(wanted, routing.weights, tokens, options_.router, experts, *parallel_.routers.batch);
  }
  const bool pads = options_.router.overflow == ExpertOverflow::kPad;
  const auto way = std::make_shared<const Dispatch>(within.chosen, experts, parallel_,
                                                    pads ? within.capacity : 0, options_.router.all_gather);
  if (at::GradMode::is_enabled()) Count(*way, wanted.size(1), tokens);
  return way;
}

// Once a micro batch: a layer that runs again has no gradients the first time.
void ExpertsBlock::Count(const Dispatch& way, int64_t choices, const RouterTokens& tokens) const {
  RouterSums* sums = options_.sums;
  if (sums == nullptr) return;
  sums->rows.resize(way.counts().size());
  int64_t sent = 0;
  for (size_t expert = 0; expert < sums->rows.size(); ++expert) {
    sums->rows[expert] += way.counts()[expert];
    sent += way.counts()[expert];
  }
  const int64_t real = tokens.real.sum().item<int64_t>();
  sums->tokens += real;
  sums->dropped += real * choices - sent;
  sums->received += way.received_rows();
}

at::Tensor ExpertsBlock::Mlps(const at::Tensor& rows, const at::Tensor& weights,
                              const GroupEnds& ends) const {
  const at::Tensor gate_up = GroupedLinear(rows, weights_.gate_up, ends);
  LinearInput activated(WeightedSwiGlu(gate_up, weights));
  if (options_.recompute) {
    activated.again = [gate_up = gate_up.detach(), weights = weights.detach()] {
      return WeightedSwiGluAgain(gate_up, weights);
    };
  }
  return GroupedLinear(activated, weights_.down, ends);
}

}  // namespace trireme
