#include "parallel/experts/dispatch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "core/tensor/dtype.h"
#include "ops/moe_permute.h"
#include "ops/weight_gradients.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Way = std::shared_ptr<const Dispatch>;

struct KeptWay : torch::CustomClassHolder {
  explicit KeptWay(Way way) : way(std::move(way)) {}
  Way way;
};

const Dispatch& Keep(AutogradContext* context, const Way& way, const at::Tensor& places) {
  context->saved_data["way"] = c10::IValue::make_capsule(c10::make_intrusive<KeptWay>(way));
  context->saved_data["places"] = places;
  return *way;
}

const Dispatch& Kept(AutogradContext* context) {
  return *static_cast<const KeptWay*>(context->saved_data["way"].toCapsule().get())->way;
}

struct ToExpertsFunction : torch::autograd::Function<ToExpertsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Way& way,
                            const at::Tensor& places) {
    return Keep(context, way, places).Spread(x, places);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Kept(context).Collect(gradients[0].contiguous(), context->saved_data["places"].toTensor()),
            at::Tensor(), at::Tensor()};
  }
};

struct FromExpertsFunction : torch::autograd::Function<FromExpertsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const Way& way,
                            const at::Tensor& places) {
    return Keep(context, way, places).Collect(rows, places);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Kept(context).Spread(gradients[0].contiguous(), context->saved_data["places"].toTensor()),
            at::Tensor(), at::Tensor()};
  }
};

// In elements of rows of that size.
Parts Scaled(const Parts& parts, int64_t size) {
  Parts scaled = parts;
  for (uint64_t& count : scaled.counts) count *= static_cast<uint64_t>(size);
  for (uint64_t& offset : scaled.offsets) offset *= static_cast<uint64_t>(size);
  return scaled;
}

std::span<int64_t> Span(const at::Tensor& tensor) {
  return {tensor.data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

at::Tensor Column(const std::vector<int64_t>& numbers) {
  return at::tensor(numbers, at::kLong).view({static_cast<int64_t>(numbers.size()), 1});
}

}  // namespace

Dispatch::Dispatch(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel)
    : group_(parallel.group), copies_(parallel.expert_tensor) {
  const at::Tensor on_host = chosen.to(at::kCPU).contiguous();
  at::Tensor places = at::empty_like(on_host);
  counts_ = PlacesByExpert(Span(on_host), experts, Span(places));
  const at::Tensor mine = at::tensor(counts_, at::kLong).to(chosen.device());
  const at::Tensor all = AllGatherRows(mine, group_).to(at::kCPU);  // [ranks · experts]
  plan_ = PlanExchange(Span(all), {.experts = experts,
                                   .expert = parallel.expert,
                                   .expert_tensor = parallel.expert_tensor,
                                   .rank = group_.rank()});
  places_ = places.to(chosen.device());
  regrouped_ = Column(plan_.regrouped).to(chosen.device());
  ends_ = std::make_shared<const std::vector<int64_t>>(plan_.ends);
}

at::Tensor Dispatch::Exchange(const at::Tensor& rows, const Parts& sent, const Parts& received,
                              int64_t result_rows) const {
  if (group_.size() == 1) return rows;
  const at::Tensor source = rows.contiguous(),
                   result = at::empty({result_rows, rows.size(1)}, rows.options());
  Pending pending(group_.AllToAllV(source.data_ptr(), Scaled(sent, rows.size(1)), result.data_ptr(),
                                   Scaled(received, rows.size(1)), FromTorch(rows.scalar_type())),
                  {source, result});
  WeightGradients::RunQueued();
  pending.Wait();
  return result;
}

at::Tensor Dispatch::Spread(const at::Tensor& x, const at::Tensor& places) const {
  const at::Tensor sent = SpreadRows(x, places, plan_.sent_rows);
  const at::Tensor arrived = Exchange(sent, plan_.sent, plan_.received, plan_.received_rows);
  return group_.size() == 1 ? arrived : SpreadRows(arrived, regrouped_, plan_.received_rows);
}

at::Tensor Dispatch::Collect(const at::Tensor& rows, const at::Tensor& places) const {
  const at::Tensor by_rank = group_.size() == 1 ? rows : SumRows(rows, regrouped_);
  return SumRows(Exchange(by_rank, plan_.received, plan_.returned, copies_ * plan_.sent_rows), places,
                 copies_);
}

at::Tensor Dispatch::ToExperts(const Way& way, const at::Tensor& x) {
  return ToExpertsFunction::apply(x, way, way->places_);
}

at::Tensor Dispatch::WeightsToExperts(const Way& way, const at::Tensor& weights) {
  return ToExpertsFunction::apply(weights.reshape({-1, 1}), way, way->places_.view({-1, 1})).squeeze(1);
}

at::Tensor Dispatch::FromExperts(const Way& way, const at::Tensor& rows) {
  return FromExpertsFunction::apply(rows, way, way->places_);
}

}  // namespace trireme
