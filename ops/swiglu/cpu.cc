#include "ops/swiglu/cpu.h"

#include "ops/cpu/lanes.h"

namespace trireme::cpu {
namespace {

TRIREME_INLINE float Sigmoid(float x) { return ReciprocalFrom1(1.0f + QuickExp(x < -80.0f ? 80.0f : -x)); }

template <typename T>
TRIREME_INLINE void ForwardBody(const T* gate_up, int64_t ffn, Rows rows, T* out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn;
    T* y = out + row * ffn;
    // silu is rounded before it is multiplied by `up`, as two separate operators would.
    const auto product = [](float g, float u)
                             __attribute__((always_inline)) { return RoundedResult<T>(g * Sigmoid(g)) * u; };
    Map(ffn, y, product, gate, up);
  }
}

template <typename T>
TRIREME_INLINE void BackwardBody(const T* gate_up, const T* gradient, int64_t ffn, Rows rows, T* out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn, *dy = gradient + row * ffn;
    T *gate_gradient = out + row * 2 * ffn, *up_gradient = gate_gradient + ffn;
    const auto gradients = [](float g, float u, float d) __attribute__((always_inline)) {
      const float s = Sigmoid(g);
      return TwoAndTerm{d * u * s * (1.0f + g * (1.0f - s)), d * g * s, 0.0f};
    };
    MapTwo(ffn, gate_gradient, up_gradient, gradients, gate, up, dy);
  }
}

template <typename T>
TRIREME_INLINE void WeightedForwardBody(const T* gate_up, const float* weights, int64_t ffn, Rows rows, T* out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn;
    const float weight = weights[row];
    T* y = out + row * ffn;
    const auto product = [&](float g, float u) __attribute__((always_inline)) { return g * Sigmoid(g) * u * weight; };
    Map(ffn, y, product, gate, up);
  }
}

template <typename T>
TRIREME_INLINE void WeightedBackwardBody(const T* gate_up, const float* weights, const T* gradient, int64_t ffn,
                                         Rows rows, T* out, float* weight_gradient) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn, *dy = gradient + row * ffn;
    T *gate_gradient = out + row * 2 * ffn, *up_gradient = gate_gradient + ffn;
    const float weight = weights[row];
    const auto gradients = [&](float g, float u, float d) __attribute__((always_inline)) {
      const float s = Sigmoid(g), dw = d * weight;
      return TwoAndTerm{dw * u * s * (1.0f + g * (1.0f - s)), dw * g * s, d * g * s * u};
    };
    weight_gradient[row] = MapTwo(ffn, gate_gradient, up_gradient, gradients, gate, up, dy);
  }
}

}  // namespace

TRIREME_CLONES void WeightedSwiGluForward(const float* gate_up, const float* weights, int64_t ffn, Rows rows,
                                          float* out) {
  WeightedForwardBody(gate_up, weights, ffn, rows, out);
}
TRIREME_CLONES void WeightedSwiGluForward(const Bf16* gate_up, const float* weights, int64_t ffn, Rows rows,
                                          Bf16* out) {
  WeightedForwardBody(gate_up, weights, ffn, rows, out);
}
TRIREME_CLONES void WeightedSwiGluBackward(const float* gate_up, const float* weights, const float* gradient,
                                           int64_t ffn, Rows rows, float* out, float* weight_gradient) {
  WeightedBackwardBody(gate_up, weights, gradient, ffn, rows, out, weight_gradient);
}
TRIREME_CLONES void WeightedSwiGluBackward(const Bf16* gate_up, const float* weights, const Bf16* gradient, int64_t ffn,
                                           Rows rows, Bf16* out, float* weight_gradient) {
  WeightedBackwardBody(gate_up, weights, gradient, ffn, rows, out, weight_gradient);
}
TRIREME_CLONES void SwiGluForward(const float* gate_up, int64_t ffn, Rows rows, float* out) {
  ForwardBody(gate_up, ffn, rows, out);
}
TRIREME_CLONES void SwiGluForward(const Bf16* gate_up, int64_t ffn, Rows rows, Bf16* out) {
  ForwardBody(gate_up, ffn, rows, out);
}
TRIREME_CLONES void SwiGluBackward(const float* gate_up, const float* gradient, int64_t ffn, Rows rows, float* out) {
  BackwardBody(gate_up, gradient, ffn, rows, out);
}
TRIREME_CLONES void SwiGluBackward(const Bf16* gate_up, const Bf16* gradient, int64_t ffn, Rows rows, Bf16* out) {
  BackwardBody(gate_up, gradient, ffn, rows, out);
}

}  // namespace trireme::cpu
