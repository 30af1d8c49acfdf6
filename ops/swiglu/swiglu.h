// SwiGLU: silu(gate) · up of a fused [tokens, gate | up].
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// gate_up: [tokens, 2 · ffn], gate first. Returns [tokens, ffn].
at::Tensor SwiGlu(const at::Tensor& gate_up);

}  // namespace trireme
