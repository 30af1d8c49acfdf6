#include "parallel/experts/experts_block.h"

#include "ops/grouped_linear/grouped_bias.h"
#include "ops/router/router.h"
#include "ops/swiglu/clamped_swiglu.h"
#include "ops/swiglu/weighted_swiglu.h"

namespace trireme {
namespace {

using RowDropout = std::shared_ptr<const Dropout>;

// From tokens to their rows at the experts; each expert has its own mask.
RowDropout AtExperts(const RowDropout& dropout, const at::Tensor& chosen, int64_t experts, const Dispatch& way) {
  if (!dropout) return nullptr;
  const at::Tensor identities = dropout->rows.unsqueeze(1) * experts + chosen.to(at::kCPU);
  const at::Tensor positions = way.positions().view({-1, 1});
  Flight flight = way.StartSpread(identities.view({-1, 1}).to(chosen.device()), positions);
  return std::make_shared<const Dropout>(Dropout{.rate = dropout->rate,
                                                 .random = dropout->random,
                                                 .rows = way.FinishSpread(flight, positions).flatten().to(at::kCPU),
                                                 .first_column = dropout->first_column});
}

// By row at the experts, the adapter that its token uses. Collective over the group.
at::Tensor AdaptersAtExperts(const at::Tensor& adapter_of, const at::Tensor& chosen, const Dispatch& way) {
  const at::Tensor each = adapter_of.to(chosen.device()).unsqueeze(1).expand_as(chosen).reshape({-1, 1});
  const at::Tensor positions = way.positions().view({-1, 1});
  Flight flight = way.StartSpread(each, positions);
  const at::Tensor arrived = way.FinishSpread(flight, positions).flatten();
  const int64_t used = way.ends()->host().back();  // what follows belongs to no expert
  return arrived.narrow(0, 0, used).to(at::kCPU);
}

std::shared_ptr<const AdapterSlots> SlotsAtExperts(const std::shared_ptr<const AdapterSlots>& slots,
                                                   const at::Tensor& chosen, const Dispatch& way) {
  if (!slots) return nullptr;
  return std::make_shared<const AdapterSlots>(slots->slots, AdaptersAtExperts(slots->slot_of, chosen, way),
                                              chosen.device());
}

at::Tensor WithAdapters(const at::Tensor& y, const LowRankInput& input, const LowRankWeights* adapters) {
  return adapters == nullptr ? y : AddLowRank(y, input, *adapters);
}

}  // namespace

at::Tensor ExpertsBlock::Logits(const LinearInput& x, const ExpertAdapterInputs& inputs,
                                const ExpertRowAdapters* adapters) const {
  if (adapters != nullptr) {
    return AddRowAdapters(RouterLogits(x, weights_.router, weights_.router_bias), {.x = x},
                          GroupByAdapter(adapters->adapter_of, x.value.device()), adapters->router);
  }
  return WithAdapters(RouterLogits(x, weights_.router, weights_.router_bias),
                      {.x = x, .dropout = inputs.router, .slots = inputs.slots}, weights_.adapters.router);
}

at::Tensor ExpertsBlock::Forward(const LinearInput& x, const RouterTokens& tokens, const ExpertAdapterInputs& inputs,
                                 const BesideExperts& beside, const ExpertRowAdapters* adapters) const {
  const at::Tensor logits = Logits(x, inputs, adapters);
  Routing routing = ChooseExperts(logits, spec_.router, weights_.bias == nullptr ? at::Tensor() : weights_.bias->value);
  if (!tokens.generates) {
    routing.weights =
        WithRouterLosses(routing, logits, weights_.router, tokens, options_.router, parallel_.routers, options_.sums);
  }
  const at::Tensor wanted = routing.experts.masked_fill(tokens.real.logical_not().unsqueeze(1), -1);
  const WithinCapacity within = Limited(wanted, routing.weights, tokens);
  const auto way =
      std::make_shared<const Dispatch>(within.chosen, spec_.router.experts, parallel_,
                                       DispatchOptions{.capacity = within.capacity,
                                                       .all_gather = options_.router.all_gather,
                                                       .expected = tokens.expects_rows ? options_.expected : nullptr});
  if (at::GradMode::is_enabled()) Count(*way, wanted.size(1), tokens);
  const at::Tensor weights = Dispatch::WeightsToExperts(way, routing.weights);
  const ExpertAdapterInputs at_experts{.gate_up = AtExperts(inputs.gate_up, within.chosen, spec_.router.experts, *way),
                                       .down = AtExperts(inputs.down, within.chosen, spec_.router.experts, *way),
                                       .slots = SlotsAtExperts(inputs.slots, within.chosen, *way)};
  const bool by_row = adapters != nullptr && adapters->on_experts;
  const AdapterRows adapter_rows =
      by_row ? GroupByAdapter(AdaptersAtExperts(adapters->adapter_of, within.chosen, *way), within.chosen.device())
             : AdapterRows{};
  const at::Tensor rows = Dispatch::ToExperts(way, x.value, beside.on_the_way);
  if (by_row) {
    return Dispatch::FromExperts(way, MlpsWithRowAdapters(rows, weights, way->ends(), *adapters, adapter_rows),
                                 beside.on_the_way_back);
  }
  return Dispatch::FromExperts(way, Mlps(rows, weights, way->ends(), at_experts), beside.on_the_way_back);
}

WithinCapacity ExpertsBlock::Limited(const at::Tensor& chosen, const at::Tensor& weights,
                                     const RouterTokens& tokens) const {
  if (options_.router.overflow == ExpertOverflow::kKeep || tokens.generates) return {chosen, 0};
  WithinCapacity within =
      DropOverflow(chosen, weights, tokens, options_.router, spec_.router.experts, *parallel_.routers.batch);
  if (options_.router.overflow != ExpertOverflow::kPad) within.capacity = 0;
  return within;
}

// Once per micro batch: with recomputation, the first forward pass runs without gradients.
void ExpertsBlock::Count(const Dispatch& way, int64_t choices, const RouterTokens& tokens) const {
  RouterSums* sums = options_.sums;
  if (sums == nullptr) return;
  const auto add = [](at::Tensor& sum, const at::Tensor& value) { sum = sum.defined() ? sum + value : value; };
  add(sums->rows, way.counts());
  add(sums->tokens, tokens.real.sum().view({1}));
  add(sums->received, way.received());
  sums->choices = choices;
}

at::Tensor ExpertsBlock::Activated(const at::Tensor& gate_up, const at::Tensor& weights) const {
  if (spec_.activation != MlpSpec::Activation::kClampedSwiglu) return WeightedSwiGlu(gate_up, weights);
  return WeightedClampedSwiGlu(gate_up, weights, {.limit = spec_.clamp, .alpha = spec_.alpha});
}

at::Tensor ExpertsBlock::ActivatedAgain(const at::Tensor& gate_up, const at::Tensor& weights) const {
  if (spec_.activation != MlpSpec::Activation::kClampedSwiglu) return WeightedSwiGluAgain(gate_up, weights);
  return WeightedClampedSwiGluAgain(gate_up, weights, {.limit = spec_.clamp, .alpha = spec_.alpha});
}

at::Tensor ExpertsBlock::WithGateUpBias(const at::Tensor& gate_up, const GroupEnds& ends) const {
  return weights_.gate_up_bias == nullptr ? gate_up : AddGroupedBias(gate_up, *weights_.gate_up_bias, ends);
}

// The rows are partial sums over etp, whose first rank adds the bias; the tokens' weights are in all but it.
at::Tensor ExpertsBlock::WithDownBias(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends) const {
  if (weights_.down_bias == nullptr) return rows;
  const bool first = parallel_.group.rank() % parallel_.expert_tensor == 0;
  return AddWeightedGroupedBias(rows, weights, *weights_.down_bias, ends, first);
}

at::Tensor ExpertsBlock::Mlps(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends,
                              const ExpertAdapterInputs& inputs) const {
  const at::Tensor gate_up =
      WithGateUpBias(WithAdapters(GroupedLinear(rows, weights_.gate_up, ends),
                                  {.x = rows, .ends = ends, .dropout = inputs.gate_up, .slots = inputs.slots},
                                  weights_.adapters.gate_up),
                     ends);
  LinearInput activated(Activated(gate_up, weights));
  if (options_.recompute) {
    activated.again = [this, gate_up = gate_up.detach(), weights = weights.detach()] {
      return ActivatedAgain(gate_up, weights);
    };
  }
  const at::Tensor down = WithAdapters(GroupedLinear(activated, weights_.down, ends),
                                       {.x = activated, .ends = ends, .dropout = inputs.down, .slots = inputs.slots},
                                       weights_.adapters.down);
  return WithDownBias(down, weights, ends);
}

at::Tensor ExpertsBlock::MlpsWithRowAdapters(const at::Tensor& rows, const at::Tensor& weights, const GroupEnds& ends,
                                             const ExpertRowAdapters& adapters, const AdapterRows& adapter_rows) const {
  const at::Tensor gate_up = WithGateUpBias(AddRowAdapters(GroupedLinear(rows, weights_.gate_up, ends),
                                                           {.x = rows, .ends = ends}, adapter_rows, adapters.gate_up),
                                            ends);
  const at::Tensor activated = Activated(gate_up, weights);
  const at::Tensor down = AddRowAdapters(GroupedLinear(activated, weights_.down, ends), {.x = activated, .ends = ends},
                                         adapter_rows, adapters.down);
  return WithDownBias(down, weights, ends);
}

}  // namespace trireme
