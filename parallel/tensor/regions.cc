#include "parallel/tensor/regions.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"
#include "ops/weight_gradients.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor EmptyRows(const at::Tensor& like, int64_t rows) {
  std::vector<int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

// Runs queued weight gradients while the tokens are in transit.
at::Tensor Arrived(Pending pending, const at::Tensor& result) {
  WeightGradients::RunQueued();
  pending.Wait();
  return result;
}

// In a group of one each of these is the identity; a view, since an autograd function must not return its
// input.
at::Tensor Spread(const at::Tensor& x, const TensorParallel& parallel) {
  if (!parallel.sequence || parallel.size() == 1) return x.view_as(x);
  const at::Tensor share = x.contiguous(), whole = EmptyRows(x, x.size(0) * parallel.size());
  return Arrived(StartAllGather(share, whole, parallel.group), whole);
}

at::Tensor Collect(const at::Tensor& x, const TensorParallel& parallel) {
  if (parallel.size() == 1) return x.view_as(x);
  if (!parallel.sequence) {
    const at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
    return Arrived(StartAllReduce(sum, parallel.group), sum);
  }
  TRIREME_CHECK(x.size(0) % parallel.size() == 0)
      << x.size(0) << " tokens are not divisible by " << parallel.size() << " ranks";
  const at::Tensor whole = x.contiguous(), share = EmptyRows(x, x.size(0) / parallel.size());
  return Arrived(StartReduceScatter(whole, share, parallel.group), share);
}

const TensorParallel& Saved(AutogradContext* context) {
  return *reinterpret_cast<const TensorParallel*>(context->saved_data["parallel"].toInt());
}

struct GatherToTensorRegionFunction : torch::autograd::Function<GatherToTensorRegionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const TensorParallel* parallel) {
    context->saved_data["parallel"] = reinterpret_cast<int64_t>(parallel);
    return Spread(x, *parallel);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Collect(gradients[0], Saved(context)), at::Tensor()};
  }
};

struct ReduceFromTensorRegionFunction : torch::autograd::Function<ReduceFromTensorRegionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const TensorParallel* parallel) {
    context->saved_data["parallel"] = reinterpret_cast<int64_t>(parallel);
    return Collect(x, *parallel);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Spread(gradients[0], Saved(context)), at::Tensor()};
  }
};

}  // namespace

at::Tensor GatherToTensorRegion(const at::Tensor& x, const TensorParallel& parallel) {
  return GatherToTensorRegionFunction::apply(x, &parallel);
}

at::Tensor ReduceFromTensorRegion(const at::Tensor& x, const TensorParallel& parallel) {
  return ReduceFromTensorRegionFunction::apply(x, &parallel);
}

}  // namespace trireme
