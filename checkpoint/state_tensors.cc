#include "checkpoint/state_tensors.h"

#include "checkpoint/manifest.h"

namespace trireme {

TensorView StateTensors::Describe(const std::string& name) const {
  const checkpoint::Tensor& tensor = store_.Find(KeyOf(name));
  return {DTypeFromName(tensor.dtype()), ShapeOf(tensor), {}};
}

const TensorView& StateTensors::Find(const std::string& name) const {
  view_ = Describe(name);
  memory_.resize(static_cast<size_t>(Elements(view_.shape) * ByteSize(view_.dtype)));
  store_.ReadWhole(store_.Find(KeyOf(name)), memory_.data());
  view_.bytes = memory_;
  return view_;
}

}  // namespace trireme
