#include "parallel/tensor/regions.h"

#include <torch/csrc/autograd/custom_function.h>

#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor Summed(const at::Tensor& x, Communicator& group) {
  at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
  AllReduce(sum, group);
  return sum;
}

at::Tensor Spread(const at::Tensor& x, const TensorParallel& parallel) {
  return parallel.sequence ? AllGatherRows(x, parallel.group) : x;
}

at::Tensor Collect(const at::Tensor& x, const TensorParallel& parallel) {
  return parallel.sequence ? ReduceScatterRows(x, parallel.group) : Summed(x, parallel.group);
}

const TensorParallel& Saved(AutogradContext* context) {
  return *reinterpret_cast<const TensorParallel*>(context->saved_data["parallel"].toInt());
}

struct EnterFunction : torch::autograd::Function<EnterFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const TensorParallel* parallel) {
    context->saved_data["parallel"] = reinterpret_cast<int64_t>(parallel);
    // A view of its own where nothing is gathered: an operator must not hand back its input.
    return parallel->sequence ? Spread(x, *parallel) : x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Collect(gradients[0], Saved(context)), at::Tensor()};
  }
};

struct LeaveFunction : torch::autograd::Function<LeaveFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const TensorParallel* parallel) {
    context->saved_data["parallel"] = reinterpret_cast<int64_t>(parallel);
    return Collect(x, *parallel);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Spread(gradients[0], Saved(context)), at::Tensor()};
  }
};

}  // namespace

at::Tensor Enter(const at::Tensor& x, const TensorParallel& parallel) {
  return EnterFunction::apply(x, &parallel);
}

at::Tensor Leave(const at::Tensor& x, const TensorParallel& parallel) {
  return LeaveFunction::apply(x, &parallel);
}

}  // namespace trireme
