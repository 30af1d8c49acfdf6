// WideMaster: a run of master weights in fp32, however they are stored, for update rules that are written in ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/sharding/update_rule.h"

namespace trireme {

class WideMaster {
 public:
  explicit WideMaster(const UpdateTensors& tensors);

  const at::Tensor& values() const { return values_; }  // [elements] fp32, to be changed in place
  // Writes the masters and the parameters as they are stored.
  void Store() const;

 private:
  const UpdateTensors& tensors_;
  const at::Tensor values_;
};

}  // namespace trireme
