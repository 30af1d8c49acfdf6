// silu(gate) · up, each row scaled by a weight that is differentiated too: what an expert does between its
// two products. The weight here, and not on the expert's output, spares keeping that output for the weight's
// gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// gate_up: [rows, 2 · ffn], weights: [rows] fp32. Returns [rows, ffn].
at::Tensor WeightedSwiGlu(const at::Tensor& gate_up, const at::Tensor& weights);

// The same values without autograd, for who makes them anew.
at::Tensor WeightedSwiGluAgain(const at::Tensor& gate_up, const at::Tensor& weights);

}  // namespace trireme
