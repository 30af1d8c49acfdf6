// SwiGLU: silu(gate) · up of a fused [tokens, gate | up].
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// gate_up: [tokens, 2 · ffn], gate first. Returns [tokens, ffn].
at::Tensor SwiGlu(const at::Tensor& gate_up);

// The same values once more, outside of autograd: for a Linear that does not keep its input.
at::Tensor SwiGluAgain(const at::Tensor& gate_up);

}  // namespace trireme
