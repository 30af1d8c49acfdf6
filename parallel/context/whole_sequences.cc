#include "parallel/context/whole_sequences.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SequenceExchange : torch::CustomClassHolder {
  SequenceExchange(std::shared_ptr<const ContextPlan> plan, const ContextParallel& parallel)
      : plan(std::move(plan)), parallel{parallel.group, 1, parallel.split().size()} {}
  const std::shared_ptr<const ContextPlan> plan;
  const ContextParallel parallel;  // all ranks exchange heads with each other

  // The tokens of all ranks, rank by rank.
  at::Tensor Order(const at::Device& device) const {
    std::vector<int64_t> order;
    for (int rank = 0; rank < parallel.ulysses; ++rank) {
      const std::vector<int64_t> own = plan->TokensOf(rank);
      order.insert(order.end(), own.begin(), own.end());
    }
    return at::tensor(order, at::kLong).to(device);
  }

  // Tokens of all rows count as one row: [1, heads, tokens, …].
  at::Tensor ToWhole(const at::Tensor& x) const {
    const at::Tensor by_rank = HeadsForTokens({x.transpose(0, 1).unsqueeze(0)}, parallel)[0].squeeze(0).transpose(0, 1);
    return at::empty(by_rank.sizes(), x.options()).index_copy_(0, Order(x.device()), by_rank.contiguous());
  }
  at::Tensor ToLocal(const at::Tensor& x) const {
    const at::Tensor by_rank = x.index_select(0, Order(x.device())).transpose(0, 1).unsqueeze(0);
    return TokensForHeads({by_rank}, parallel)[0].squeeze(0).transpose(0, 1).contiguous();
  }
  at::Tensor Go(const at::Tensor& x, bool to_whole) const { return to_whole ? ToWhole(x) : ToLocal(x); }
};

struct SequenceExchangeFunction : torch::autograd::Function<SequenceExchangeFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const c10::intrusive_ptr<SequenceExchange>& exchange, bool to_whole) {
    context->saved_data["exchange"] = c10::IValue::make_capsule(exchange);
    context->saved_data["to_whole"] = to_whole;
    return exchange->Go(x.detach(), to_whole);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["exchange"].toCapsule();
    const auto& exchange = *static_cast<const SequenceExchange*>(capsule.get());
    return {exchange.Go(gradients[0], !context->saved_data["to_whole"].toBool()), at::Tensor(), at::Tensor()};
  }
};

at::Tensor Exchanged(const at::Tensor& x, std::shared_ptr<const ContextPlan> plan, const ContextParallel& parallel,
                     bool to_whole) {
  if (parallel.split().size() == 1) return x;
  return SequenceExchangeFunction::apply(x, c10::make_intrusive<SequenceExchange>(std::move(plan), parallel), to_whole);
}

}  // namespace

at::Tensor WholeSequences(const at::Tensor& x, std::shared_ptr<const ContextPlan> plan,
                          const ContextParallel& parallel) {
  return Exchanged(x, std::move(plan), parallel, /*to_whole=*/true);
}

at::Tensor LocalSequences(const at::Tensor& x, std::shared_ptr<const ContextPlan> plan,
                          const ContextParallel& parallel) {
  return Exchanged(x, std::move(plan), parallel, /*to_whole=*/false);
}

}  // namespace trireme
