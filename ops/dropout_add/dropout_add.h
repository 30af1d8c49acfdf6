// Dropout by position: which elements of a row are dropped depends only on the row's identity and the
// column's index (the rule is in dropout_rule.h), so that any layout, any device and a recomputed forward
// pass drop the same elements. The others are scaled by 1 / (1 - rate). Knows no layout: the caller
// identifies the rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/base/random.h"

namespace trireme {

struct Dropout {
  double rate = 0;
  RandomStream random;
  at::Tensor rows;           // [rows] int64, in host memory: their identities
  int64_t first_column = 0;  // index of the first column, if there are only some

  // Two words per row, [rows, 2] int32 on the device; created once.
  const at::Tensor& KeysOn(at::Device device) const;

  mutable at::Tensor keys = {};
};

// [rows, columns] fp32 in host memory, of 0 and 1 / (1 - rate).
at::Tensor DropoutMask(const Dropout& dropout, int64_t columns);

// x with its mask; applied to a gradient, also the backward pass. Outside autograd.
at::Tensor Dropped(const at::Tensor& x, const Dropout& dropout);

// Differentiable: x with its mask, and residual + that, rounded once.
at::Tensor WithDropout(const at::Tensor& x, const std::shared_ptr<const Dropout>& dropout);
at::Tensor DropoutAdd(const at::Tensor& residual, const at::Tensor& x, const std::shared_ptr<const Dropout>& dropout);

}  // namespace trireme
