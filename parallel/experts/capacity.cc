#include "parallel/experts/capacity.h"

#include <ATen/ATen.h>

#include <tuple>

#include "parallel/experts/sort_by_expert.h"

namespace trireme {

// Sorts are stable: first tokens in their order, then choices by weight, then by expert.
at::Tensor KeptChoices(const at::Tensor& chosen, const at::Tensor& weights, const at::Tensor& order, int64_t experts,
                       int64_t capacity) {
  const at::Tensor ascending = at::arange(order.numel(), order.options());
  const at::Tensor in_order = at::empty_like(order).scatter_(0, order, ascending);
  const at::Tensor falling = weights.index_select(0, in_order).flatten().neg();
  const at::Tensor by_weight = std::get<1>(at::sort(falling, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  const at::Tensor expert = chosen.index_select(0, in_order).flatten().index_select(0, by_weight);
  const ByExpert sorted = SortByExpert(expert.unsqueeze(1), experts);
  const at::Tensor first = sorted.counts.cumsum(0) - sorted.counts;  // each expert's
  const at::Tensor larger = sorted.positions.flatten() - first.index_select(0, expert.clamp_min(0));
  const at::Tensor kept = at::zeros_like(expert).scatter_(0, by_weight, larger.lt(capacity).to(at::kLong));
  return chosen.masked_fill(kept.view_as(chosen).index_select(0, order).eq(0), -1);
}

}  // namespace trireme
