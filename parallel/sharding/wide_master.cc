#include "parallel/sharding/wide_master.h"

#include "ops/flat/split_master.h"

namespace trireme {
namespace {

bool HasSplitMaster(const UpdateTensors& tensors) { return tensors.master.scalar_type() == at::kShort; }

at::Tensor Widened(const UpdateTensors& tensors) {
  return HasSplitMaster(tensors) ? JoinMaster(tensors.parameter, tensors.master) : tensors.master.to(at::kFloat);
}

}  // namespace

WideMaster::WideMaster(const UpdateTensors& tensors) : tensors_(tensors), values_(Widened(tensors)) {}

void WideMaster::Store() const {
  if (HasSplitMaster(tensors_)) return SplitMaster(values_, tensors_.parameter, tensors_.master);
  if (!values_.is_same(tensors_.master)) at::Tensor(tensors_.master).copy_(values_);
  if (tensors_.parameter.defined()) at::Tensor(tensors_.parameter).copy_(values_);
}

}  // namespace trireme
