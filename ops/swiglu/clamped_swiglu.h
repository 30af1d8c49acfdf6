// Clamped SwiGLU, as GPT-OSS has it: (up + 1) · gate · sigmoid(alpha · gate), gate limited from above and up on both
// sides. Gate and up alternate. By ATen alone, in fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

struct ClampedSwiGluRule {
  double limit = 7;
  double alpha = 1.702;
};

// gate_up: [rows, 2 · ffn], columns gate, up, gate, up, …; weights: [rows] fp32 by which rows are scaled, and which get
// a gradient (weighted_swiglu.h says why). Returns [rows, ffn].
at::Tensor WeightedClampedSwiGlu(const at::Tensor& gate_up, const at::Tensor& weights, const ClampedSwiGluRule& rule);

// Recomputes the same values, outside autograd.
at::Tensor WeightedClampedSwiGluAgain(const at::Tensor& gate_up, const at::Tensor& weights,
                                      const ClampedSwiGluRule& rule);

}  // namespace trireme
