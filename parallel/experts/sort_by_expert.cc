#include "parallel/experts/sort_by_expert.h"

#include <ATen/ATen.h>

#include <span>
#include <tuple>

#include "core/tensor/device_copies.h"
#include "ops/moe_permute/expert_positions.h"
#include "parallel/experts/dispatch_plan.h"

namespace trireme {
namespace {

std::span<int64_t> ElementsOf(const at::Tensor& tensor) {
  return {tensor.data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

ByExpert OnHost(const at::Tensor& chosen, int64_t experts) {
  const at::Tensor all = chosen.to(at::kCPU).contiguous();
  const at::Tensor positions = at::empty_like(all);
  const std::vector<int64_t> counts = PositionsByExpert(ElementsOf(all), experts, ElementsOf(positions));
  return {Upload(positions, chosen.device()), Upload(at::tensor(counts, at::kLong), chosen.device())};
}

// Experts as fp32, which Ascend's cores sort; exact, as there are fewer than 2²⁴. Those that are not dispatched
// come last.
ByExpert OnDevice(const at::Tensor& chosen, int64_t experts) {
  const at::Tensor flat = chosen.flatten(), nowhere = flat.lt(0);
  const at::Tensor expert = flat.masked_fill(nowhere, experts);
  const at::Tensor order = std::get<1>(at::sort(expert.to(at::kFloat), /*stable=*/true, /*dim=*/0, false));
  const at::Tensor ascending = at::arange(flat.numel(), flat.options());
  const at::Tensor positions = at::empty_like(flat).scatter_(0, order, ascending).masked_fill_(nowhere, -1);
  const at::TensorOptions narrow = flat.options().dtype(at::kInt);
  const at::Tensor counts = at::zeros({experts + 1}, narrow).scatter_add_(0, expert, at::ones({flat.numel()}, narrow));
  return {positions.view_as(chosen), counts.narrow(0, 0, experts).to(at::kLong)};
}

}  // namespace

ByExpert SortByExpert(const at::Tensor& chosen, int64_t experts) {
  if (const auto found = PositionsOnDevice(chosen, experts)) return {found->positions, found->counts};
  const bool sorts = chosen.is_privateuseone() && chosen.numel() > 0;
  return sorts ? OnDevice(chosen, experts) : OnHost(chosen, experts);
}

}  // namespace trireme
