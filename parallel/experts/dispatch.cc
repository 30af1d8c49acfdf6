#include "parallel/experts/dispatch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "core/tensor/device_copies.h"
#include "core/tensor/dtype.h"
#include "ops/moe_permute/moe_permute.h"
#include "ops/weight_gradients.h"
#include "parallel/experts/expected_exchange.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Way = std::shared_ptr<const Dispatch>;

// One direction, in two parts: what is computed between departure and arrival overlaps with the tokens'
// transfer, and its backward pass with the transfer of their gradients. A tensor without elements stands for
// the tokens meanwhile.
struct Journey : torch::CustomClassHolder {
  Journey(Way way, at::Tensor positions, bool to_experts)
      : way(std::move(way)), positions(std::move(positions)), to_experts(to_experts) {}

  void Depart(const at::Tensor& x, bool there) {
    flight = there ? way->StartSpread(x, positions) : way->StartCollect(x, positions);
  }
  at::Tensor Arrive(bool there) {
    Flight landing = std::exchange(flight, {});
    return there ? way->FinishSpread(landing, positions) : way->FinishCollect(landing, positions);
  }

  const Way way;
  const at::Tensor positions;
  const bool to_experts;
  Flight flight;
};
using JourneyPtr = c10::intrusive_ptr<Journey>;

void KeepJourney(AutogradContext* context, const JourneyPtr& journey) {
  context->saved_data["journey"] = c10::IValue::make_capsule(journey);
}

JourneyPtr SavedJourney(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<Journey>(context->saved_data["journey"].toCapsule());
}

struct Departure : torch::autograd::Function<Departure> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const JourneyPtr& journey) {
    KeepJourney(context, journey);
    journey->Depart(x, journey->to_experts);
    return at::empty({0}, x.options());
  }
  static variable_list backward(AutogradContext* context, const variable_list&) {
    const JourneyPtr journey = SavedJourney(context);
    return {journey->Arrive(!journey->to_experts), at::Tensor()};
  }
};

struct Arrival : torch::autograd::Function<Arrival> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& ticket, const JourneyPtr& journey) {
    KeepJourney(context, journey);
    return journey->Arrive(journey->to_experts);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const JourneyPtr journey = SavedJourney(context);
    journey->Depart(gradients[0].contiguous(), !journey->to_experts);
    return {at::empty({0}, gradients[0].options()), at::Tensor()};
  }
};

at::Tensor Travel(const at::Tensor& x, const JourneyPtr& journey, const std::function<void()>& meanwhile) {
  const at::Tensor ticket = Departure::apply(x, journey);
  if (meanwhile) meanwhile();
  return Arrival::apply(ticket, journey);
}

// In elements, for rows of that size.
Parts Scaled(const Parts& parts, int64_t size) {
  Parts scaled = parts;
  for (uint64_t& count : scaled.counts) count *= static_cast<uint64_t>(size);
  for (uint64_t& offset : scaled.offsets) offset *= static_cast<uint64_t>(size);
  return scaled;
}

std::span<int64_t> Span(const at::Tensor& tensor) {
  return {tensor.data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

// So that all experts of the group get the same number of rows: as many as the capacities of its micro
// batches allow, each known to all ranks that share it.
int64_t LeastRows(const at::Tensor& capacities, const at::Tensor& counts, const ExpertParallel& parallel) {
  const int64_t shared_by = parallel.routers.batch == nullptr ? 1 : parallel.routers.batch->size();
  const int64_t brought = (capacities.sum().item<int64_t>() + shared_by - 1) / shared_by;
  return std::max({brought, capacities.max().item<int64_t>(), counts.sum(0).max().item<int64_t>()});
}

// `x` followed by rows of `value`, `rows` in total.
at::Tensor Filled(const at::Tensor& x, int64_t rows, int64_t value) {
  if (x.size(0) == rows) return x.contiguous();
  return at::cat({x, at::full({rows - x.size(0), x.size(1)}, value, x.options())});
}

at::Tensor Column(const std::vector<int64_t>& numbers) {
  return at::tensor(numbers, at::kLong).view({static_cast<int64_t>(numbers.size()), 1});
}

}  // namespace

Dispatch::Dispatch(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel,
                   const DispatchOptions& options)
    : group_(parallel.group),
      gathers_(options.all_gather && parallel.group.size() > 1),
      copies_(parallel.expert_tensor),
      tokens_(chosen.size(0)) {
  if (gathers_) {
    PlanGather(chosen, experts, parallel, options.capacity);
  } else if (group_.size() == 1 && options.capacity == 0 && chosen.is_privateuseone() && chosen.numel() > 0) {
    PlanOnDevice(chosen, experts);
  } else {
    PlanExchangeOf(chosen, experts, parallel, options);
  }
}

// One rank holds all experts: what was chosen stays on the device. Room for every choice; the rows of those
// that are not dispatched stay zero, after the last expert's.
void Dispatch::PlanOnDevice(const at::Tensor& chosen, int64_t experts) {
  const ByExpert sorted = SortByExpert(chosen, experts);
  counts_ = sorted.counts;
  positions_ = sorted.positions;
  plan_.sent_rows = plan_.received_rows = plan_.held_rows = chosen.numel();
  received_ = counts_.sum().view({1});
  ends_ = std::make_shared<const RowEnds>(counts_.cumsum(0));
}

void Dispatch::PlanExchangeOf(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel,
                              const DispatchOptions& options) {
  const ExpertLayout layout{experts, parallel.expert, parallel.expert_tensor, group_.rank()};
  const ByExpert sorted = SortByExpert(chosen, experts);
  counts_ = sorted.counts;
  const at::Tensor capacities = at::full({1}, options.capacity, sorted.counts.options());
  const at::Tensor mine = at::cat({sorted.counts, capacities}).unsqueeze(0);
  const at::Tensor gathered = group_.size() == 1 ? mine : AllGatherRows(mine, group_);  // [ranks, experts + 1]
  if (options.expected != nullptr) {
    const at::Tensor counts = gathered.narrow(1, 0, experts);
    options.expected->Observe(RowsByPart(counts, layout));
    if (!options.expected->rooms().empty()) {
      return PlanExpectedOf(chosen, sorted, counts, layout, *options.expected);
    }
  }
  // The host waits here, once per layer and micro batch: it posts the exchange, whose sizes these are.
  const at::Tensor known = gathered.to(at::kCPU);
  const at::Tensor all = known.narrow(1, 0, experts).contiguous();
  const int64_t least = options.capacity == 0 ? 0 : LeastRows(known.select(1, experts), all, parallel);
  plan_ = PlanExchange(Span(all), layout, least);
  positions_ = sorted.positions;
  if (!in_order()) regrouped_ = Upload(Column(plan_.regrouped), chosen.device());
  received_ = at::full({1}, plan_.received_rows, counts_.options());
  ends_ = std::make_shared<const RowEnds>(plan_.ends);
}

// The host posts what it expects, and learns after the step whether that was enough.
void Dispatch::PlanExpectedOf(const at::Tensor& chosen, const ByExpert& sorted, const at::Tensor& all,
                              const ExpertLayout& layout, const ExpectedRows& expected) {
  ExpectedExchange exchange = PlanExpected(chosen, sorted, all, expected.rooms(), layout);
  plan_ = std::move(exchange.plan);
  positions_ = std::move(exchange.positions);
  regrouped_ = std::move(exchange.regrouped);
  received_ = exchange.ends.narrow(0, layout.held() - 1, 1);
  ends_ = std::make_shared<const RowEnds>(std::move(exchange.ends));
}

// Each rank sees all tokens' choices and takes those of its own experts.
void Dispatch::PlanGather(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel, int64_t capacity) {
  const ExpertLayout layout{experts, parallel.expert, parallel.expert_tensor, group_.rank()};
  const at::Tensor sizes = Upload(at::tensor({chosen.size(0), capacity}, at::kLong), chosen.device()).unsqueeze(0);
  const at::Tensor known = AllGatherRows(sizes, group_).to(at::kCPU);
  const int64_t most = known.select(1, 0).max().item<int64_t>();
  const at::Tensor all = AllGatherRows(Filled(chosen, most, -1), group_).to(at::kCPU);
  const at::Tensor counts = at::bincount(all.flatten() + 1, {}, experts + 1).narrow(0, 1, experts);
  const int64_t least = capacity == 0 ? 0 : LeastRows(known.select(1, 1), counts.unsqueeze(0), parallel);
  const at::Tensor here = all - layout.first();
  const at::Tensor own = here.masked_fill(here.lt(0).logical_or(here.ge(layout.held())), -1).contiguous();
  at::Tensor positions = at::empty_like(own), mine = chosen.to(at::kCPU).contiguous();
  at::Tensor unused = at::empty_like(mine);
  const std::vector<int64_t> of_mine = PositionsByExpert(Span(mine), experts, Span(unused));
  counts_ = Upload(at::tensor(of_mine, at::kLong), chosen.device());
  std::vector<int64_t> ends;
  for (const int64_t rows : PositionsByExpert(Span(own), layout.held(), Span(positions), least)) {
    plan_.received_rows += rows;
    plan_.held_rows += std::max(rows, least);
    ends.push_back(plan_.held_rows);
  }
  positions_ = Upload(positions, chosen.device());
  received_ = at::full({1}, plan_.received_rows, counts_.options());
  ends_ = std::make_shared<const RowEnds>(std::move(ends));
}

Flight Dispatch::StartExchange(const at::Tensor& rows, const Parts& sent, const Parts& received,
                               int64_t result_rows) const {
  if (group_.size() == 1) return {{}, rows, rows.scalar_type()};
  const at::Tensor source = rows.contiguous(), result = at::empty({result_rows, rows.size(1)}, rows.options());
  return {Pending(group_.AllToAllV(source.data_ptr(), Scaled(sent, rows.size(1)), result.data_ptr(),
                                   Scaled(received, rows.size(1)), FromTorch(rows.scalar_type())),
                  {source, result}),
          result, rows.scalar_type()};
}

Flight Dispatch::StartSpread(const at::Tensor& x, const at::Tensor& positions) const {
  if (!gathers_) {
    return StartExchange(SpreadRows(x, positions, plan_.sent_rows, /*gaps=*/!ends_->on_host()), plan_.sent,
                         plan_.received, plan_.received_rows);
  }
  const at::Tensor whole = at::empty({positions.size(0), x.size(1)}, x.options());
  return {StartAllGather(Filled(x, positions.size(0) / group_.size(), 0), whole, group_), whole, x.scalar_type()};
}

at::Tensor Dispatch::FinishSpread(Flight& flight, const at::Tensor& positions) const {
  flight.Land();
  if (gathers_) return SpreadRows(flight.arriving, positions, plan_.held_rows, has_gaps());
  return in_order() ? flight.arriving : SpreadRows(flight.arriving, regrouped_, plan_.held_rows, has_gaps());
}

// With all-gather: partial sums over etp and ep, added in fp32.
Flight Dispatch::StartCollect(const at::Tensor& rows, const at::Tensor& positions) const {
  if (!gathers_) {
    const at::Tensor by_rank = in_order() ? rows : SumRows(rows, regrouped_);
    return StartExchange(by_rank, plan_.received, plan_.returned, copies_ * plan_.sent_rows);
  }
  const at::Tensor parts = SumRows(rows, positions).to(at::kFloat).contiguous();
  const at::Tensor sum = at::empty({parts.size(0) / group_.size(), parts.size(1)}, parts.options());
  return {StartReduceScatter(parts, sum, group_), sum, rows.scalar_type()};
}

at::Tensor Dispatch::FinishCollect(Flight& flight, const at::Tensor& positions) const {
  flight.Land();
  if (!gathers_) return SumRows(flight.arriving, positions, copies_);
  const int64_t a_token = positions.size(0) / std::max<int64_t>(positions_.size(0), 1);  // k for one row per choice
  return flight.arriving.narrow(0, 0, tokens_ * a_token).to(flight.type);
}

void Flight::Land() {
  if (pending.under_way()) WeightGradients::RunQueued();
  pending.Wait();
}

at::Tensor Dispatch::ToExperts(const Way& way, const at::Tensor& x, const std::function<void()>& meanwhile) {
  return Travel(x, c10::make_intrusive<Journey>(way, way->positions_, true), meanwhile);
}

at::Tensor Dispatch::WeightsToExperts(const Way& way, const at::Tensor& weights) {
  const at::Tensor positions = way->positions_.view({-1, 1});
  return Travel(weights.reshape({-1, 1}), c10::make_intrusive<Journey>(way, positions, true), {}).squeeze(1);
}

at::Tensor Dispatch::FromExperts(const Way& way, const at::Tensor& rows, const std::function<void()>& meanwhile) {
  return Travel(rows, c10::make_intrusive<Journey>(way, way->positions_, false), meanwhile);
}

}  // namespace trireme
