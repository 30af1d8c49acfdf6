// silu(gate) · up over rows of a fused gate | up, and its gradient.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

// gate_up: [rows, 2 · ffn], out: [rows, ffn]
void SwiGluForward(const float* gate_up, int64_t ffn, Rows rows, float* out);
void SwiGluForward(const Bf16* gate_up, int64_t ffn, Rows rows, Bf16* out);

// gradient: [rows, ffn], out: [rows, 2 · ffn]
void SwiGluBackward(const float* gate_up, const float* gradient, int64_t ffn, Rows rows, float* out);
void SwiGluBackward(const Bf16* gate_up, const Bf16* gradient, int64_t ffn, Rows rows, Bf16* out);

// The same with each row scaled by its weight; backward also returns the gradients of the weights.
void WeightedSwiGluForward(const float* gate_up, const float* weights, int64_t ffn, Rows rows, float* out);
void WeightedSwiGluForward(const Bf16* gate_up, const float* weights, int64_t ffn, Rows rows, Bf16* out);
void WeightedSwiGluBackward(const float* gate_up, const float* weights, const float* gradient, int64_t ffn, Rows rows,
                            float* out, float* weight_gradient);
void WeightedSwiGluBackward(const Bf16* gate_up, const float* weights, const Bf16* gradient, int64_t ffn, Rows rows,
                            Bf16* out, float* weight_gradient);

}  // namespace trireme::cpu
