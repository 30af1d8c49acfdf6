#include "parallel/experts/router_losses.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "parallel/experts/capacity.h"
#include "parallel/experts/dispatch_plan.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LossGradients {
  at::Tensor shares, logits;  // either may be undefined
};
using GradientsOf = std::function<LossGradients(const at::Tensor& shares, const at::Tensor& logits)>;

struct SavedGradients : torch::CustomClassHolder {
  GradientsOf make;
};

struct RouterLosses : torch::autograd::Function<RouterLosses> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weights, const at::Tensor& shares,
                            const at::Tensor& logits, const GradientsOf& make) {
    auto saved = c10::make_intrusive<SavedGradients>();
    saved->make = make;
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    context->save_for_backward({shares, logits});
    return weights.view_as(weights);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["saved"].toCapsule();
    const variable_list saved_tensors = context->get_saved_variables();
    LossGradients losses = static_cast<SavedGradients*>(holder.get())->make(saved_tensors[0], saved_tensors[1]);
    return {gradients[0], losses.shares, losses.logits, at::Tensor()};
  }
};

// [tokens, sets]: 1 where a token belongs to a set.
at::Tensor MembersOf(const RouterTokens& tokens, BalanceOver balance) {
  if (balance != BalanceOver::kSequence) return tokens.real.to(at::kFloat).unsqueeze(1);
  const at::Tensor sets = at::arange(tokens.sequences, tokens.sequence.options());
  return tokens.sequence.unsqueeze(1).eq(sets).to(at::kFloat);
}

// [sets, experts]: how often a token of each set chooses each expert, over all ranks of the group.
at::Tensor ChoiceRates(const Routing& routing, const at::Tensor& members, Communicator& group) {
  const at::Tensor chosen = at::zeros_like(routing.scores.detach()).scatter_(1, routing.experts, 1.0);
  const at::Tensor sizes = members.sum(0).unsqueeze(1);
  const at::Tensor counts = at::cat({at::mm(members.t(), chosen), sizes}, 1).contiguous();
  AllReduce(counts, group);
  const int64_t experts = counts.size(1) - 1;
  return counts.narrow(1, 0, experts) / counts.narrow(1, experts, 1).clamp_min(1.0);
}

at::Tensor PooledRates(const RouterPool& pool) {
  at::Tensor sum;
  for (const auto& [router, rates] : pool) sum = sum.defined() ? sum + rates : rates;
  return sum / static_cast<double>(pool.size());
}

// In the order of RouterSums::numbers.
enum Number { kEntropy, kBalance, kZ };

void Count(RouterSums* sums, Number number, const at::Tensor& value) {
  if (sums == nullptr) return;
  const c10::AutoGradMode no_graph(false);
  if (!sums->numbers.defined()) sums->numbers = at::zeros({3}, value.options());
  sums->numbers.narrow(0, number, 1).add_(value.reshape({1}));
}

// Each router's scores normalised to sum to 1, which sigmoids do not.
at::Tensor SharesOf(const Routing& routing, const at::Tensor& logits) {
  if (logits.size(0) == 0) return routing.scores;
  return routing.scores / (routing.scores.sum(-1, /*keepdim=*/true) + 1e-20);
}

GradientsOf BalanceGradient(const Routing& routing, const Weight& router, const RouterTokens& tokens,
                            const RouterOptions& options, const RouterGroups& groups, RouterSums* sums) {
  if (options.balance == BalanceOver::kNothing || options.balance_coefficient == 0) return {};
  const bool pooled = options.balance == BalanceOver::kPooled;
  const at::Tensor members = MembersOf(tokens, options.balance);
  const at::Tensor rates =
      ChoiceRates(routing, members, options.balance == BalanceOver::kGlobal ? *groups.stage : *groups.batch);
  if (pooled) (*tokens.pool)[&router] = rates;
  const auto experts = static_cast<double>(rates.size(1));
  const double parts = static_cast<double>(pooled ? options.layers : routing.experts.size(1));
  const double factor = options.balance_coefficient * experts / parts * tokens.scale;
  return [=, pool = tokens.pool](const at::Tensor& shares, const at::Tensor&) -> LossGradients {
    const at::Tensor gradient = at::mm(members, pooled ? PooledRates(*pool) : rates).mul_(factor);
    Count(sums, kBalance, (shares * gradient).sum());
    return {gradient, {}};
  };
}

GradientsOf ZGradient(const RouterTokens& tokens, const RouterOptions& options, RouterSums* sums) {
  if (options.z_coefficient == 0) return {};
  const double factor = options.z_coefficient * tokens.scale;
  return [real = tokens.real, factor, sums](const at::Tensor&, const at::Tensor& logits) -> LossGradients {
    const at::Tensor log_sum = logits.logsumexp(-1, /*keepdim=*/true) * real.unsqueeze(1);
    Count(sums, kZ, log_sum.square().sum() * factor);
    return {{}, at::softmax(logits, -1) * log_sum * (2 * factor)};
  };
}

void CountEntropy(const at::Tensor& shares, const RouterTokens& tokens, RouterSums* sums) {
  if (sums == nullptr || !at::GradMode::is_enabled()) return;
  const at::Tensor values = shares.detach();
  const at::Tensor each = -(values * values.clamp_min(1e-20).log()).sum(-1);
  Count(sums, kEntropy, (each * tokens.real).sum());
}

int64_t CapacityOf(const RouterOptions& options, int64_t choosing, int64_t experts) {
  return static_cast<int64_t>(
      std::ceil(options.capacity * static_cast<double>(choosing) / static_cast<double>(experts)));
}

}  // namespace

at::Tensor WithRouterLosses(const Routing& routing, const at::Tensor& logits, const Weight& router,
                            const RouterTokens& tokens, const RouterOptions& options, const RouterGroups& groups,
                            RouterSums* sums) {
  const at::Tensor shares = SharesOf(routing, logits);
  CountEntropy(shares, tokens, sums);
  const GradientsOf balance = BalanceGradient(routing, router, tokens, options, groups, sums);
  const GradientsOf z = ZGradient(tokens, options, sums);
  if (!balance && !z) return routing.weights;
  const GradientsOf both = [balance, z](const at::Tensor& shares, const at::Tensor& logits) -> LossGradients {
    return {balance ? balance(shares, logits).shares : at::Tensor(), z ? z(shares, logits).logits : at::Tensor()};
  };
  return RouterLosses::apply(routing.weights, shares, logits, both);
}

// Weights, choices and positions travel in one fp32 message: a micro batch has fewer tokens than fp32 has
// exact integers. On npu nobody waits for them.
WithinCapacity DropOverflow(const at::Tensor& chosen, const at::Tensor& weights, const RouterTokens& tokens,
                            const RouterOptions& options, int64_t experts, Communicator& batch) {
  const int64_t k = chosen.size(1), mine = chosen.size(0);
  const at::Tensor packed =
      at::cat({weights.detach(), chosen.to(at::kFloat), tokens.order.to(at::kFloat).unsqueeze(1)}, 1);
  const bool on_device = chosen.is_privateuseone() && tokens.in_batch >= 0 && mine > 0;
  const at::Tensor gathered = AllGatherRows(packed.contiguous(), batch);
  const at::Tensor all = on_device ? gathered : gathered.to(at::kCPU);
  TRIREME_CHECK(all.size(0) < (int64_t{1} << 24))
      << all.size(0) << " tokens in a micro batch; their positions are not exact in fp32";
  const at::Tensor by_weight = all.narrow(1, 0, k).contiguous();
  at::Tensor choices = all.narrow(1, k, k).to(at::kLong).contiguous();
  const at::Tensor order = all.select(1, 2 * k).to(at::kLong).contiguous();
  if (on_device) {
    const int64_t capacity = CapacityOf(options, tokens.in_batch * k, experts);
    const at::Tensor kept = KeptChoices(choices, by_weight, order, experts, capacity);
    return {kept.narrow(0, batch.rank() * mine, mine).contiguous(), capacity};
  }
  const int64_t capacity = CapacityOf(options, choices.ge(0).sum().item<int64_t>(), experts);
  const auto count = static_cast<size_t>(choices.numel());
  KeepLargest({choices.data_ptr<int64_t>(), count}, {by_weight.data_ptr<float>(), count},
              {order.data_ptr<int64_t>(), static_cast<size_t>(order.numel())}, experts, capacity);
  return {choices.narrow(0, batch.rank() * mine, mine).contiguous().to(chosen.device()), capacity};
}

}  // namespace trireme
