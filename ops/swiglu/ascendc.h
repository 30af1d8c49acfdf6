// The host side of the SwiGLU kernels: silu(gate) · up over rows of a fused gate | up.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

// gate_up: [rows, 2 · ffn], out: [rows, ffn]
void SwigluForward(const KernelPlace& place, Element element, const void* gate_up, uint64_t rows, uint64_t ffn,
                   void* out);
// gradient: [rows, ffn], result: [rows, 2 · ffn]
void SwigluBackward(const KernelPlace& place, Element element, const void* gate_up, const void* gradient, uint64_t rows,
                    uint64_t ffn, void* result);

}  // namespace trireme::ascendc
