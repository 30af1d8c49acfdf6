#include "parallel/experts/token_shard.h"

#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void KeepTensorParallel(AutogradContext* context, const TensorParallel* parallel) {
  context->saved_data["parallel"] = reinterpret_cast<int64_t>(parallel);
}

const TensorParallel& SavedTensorParallel(AutogradContext* context) {
  return *reinterpret_cast<const TensorParallel*>(context->saved_data["parallel"].toInt());
}

struct TakeFunction : torch::autograd::Function<TakeFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const TensorParallel* parallel) {
    KeepTensorParallel(context, parallel);
    return ShardOf(x, *parallel);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {AllGatherRows(gradients[0], SavedTensorParallel(context).group), at::Tensor()};
  }
};

struct GiveFunction : torch::autograd::Function<GiveFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const TensorParallel* parallel) {
    KeepTensorParallel(context, parallel);
    return AllGatherRows(x, parallel->group);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {ShardOf(gradients[0], SavedTensorParallel(context)).contiguous(), at::Tensor()};
  }
};

bool HoldsShard(const TensorParallel& parallel) { return parallel.sequence || parallel.size() == 1; }

}  // namespace

at::Tensor ShardOf(const at::Tensor& all, const TensorParallel& parallel) {
  if (!all.defined()) return all;
  TRIREME_CHECK(all.size(0) % parallel.size() == 0)
      << all.size(0) << " tokens are not divisible by " << parallel.size() << " ranks";
  const int64_t shard = all.size(0) / parallel.size();
  return all.narrow(0, parallel.rank() * shard, shard);
}

at::Tensor TakeShard(const at::Tensor& x, const TensorParallel& parallel) {
  return HoldsShard(parallel) ? x : TakeFunction::apply(x, &parallel);
}

at::Tensor GiveShard(const at::Tensor& x, const TensorParallel& parallel) {
  return HoldsShard(parallel) ? x : GiveFunction::apply(x, &parallel);
}

}  // namespace trireme
