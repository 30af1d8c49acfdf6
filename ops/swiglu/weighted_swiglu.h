// silu(gate) · up, each row scaled by a weight that is differentiated as well: what an expert computes
// between its two gemms. Applying the weight here, and not to the expert's output, avoids saving that output
// for the weight's gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// gate_up: [rows, 2 · ffn], weights: [rows] fp32. Returns [rows, ffn].
at::Tensor WeightedSwiGlu(const at::Tensor& gate_up, const at::Tensor& weights);

// Recomputes the same values, outside autograd.
at::Tensor WeightedSwiGluAgain(const at::Tensor& gate_up, const at::Tensor& weights);

}  // namespace trireme
