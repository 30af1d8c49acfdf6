// The output mask of aclnn's backward operators: which of the gradients of input, weight and bias the caller
// asked for, and copying those, and only those, to its outputs. What the gradients are is not decided here.
#pragma once

#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

namespace twin {

using GradientMask = std::array<bool, 3>;  // of input, weight and bias

inline GradientMask MakeGradientMask(const std::vector<uint8_t>& mask) {
  return {mask.at(0) != 0, mask.at(1) != 0, mask.at(2) != 0};
}

// An output that was asked for must be there: std::bad_optional_access otherwise.
inline void CopyMasked(const GradientMask& mask, const std::tuple<at::Tensor, at::Tensor, at::Tensor>& gradients,
                       std::optional<at::Tensor> input, std::optional<at::Tensor> weight,
                       std::optional<at::Tensor> bias) {
  if (mask[0]) input.value().copy_(std::get<0>(gradients));
  if (mask[1]) weight.value().copy_(std::get<1>(gradients));
  if (mask[2]) bias.value().copy_(std::get<2>(gradients));
}

}  // namespace twin
