#include "ops/cpu/swiglu.h"

namespace trireme::cpu {
namespace {

TRIREME_INLINE float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

template <typename T>
TRIREME_INLINE void ForwardBody(const T* gate_up, int64_t ffn, Rows rows, T* out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn;
    T* y = out + row * ffn;
#pragma omp simd
    for (int64_t i = 0; i < ffn; ++i) {
      const float g = Widen(gate[i]);
      // silu is rounded before it meets `up`, as a chain of two operators does.
      const float silu = Widen(NarrowResult<T>(g * Sigmoid(g)));
      y[i] = NarrowResult<T>(silu * Widen(up[i]));
    }
  }
}

template <typename T>
TRIREME_INLINE void BackwardBody(const T* gate_up, const T* gradient, int64_t ffn, Rows rows, T* out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn, *dy = gradient + row * ffn;
    T *gate_gradient = out + row * 2 * ffn, *up_gradient = gate_gradient + ffn;
#pragma omp simd
    for (int64_t i = 0; i < ffn; ++i) {
      const float g = Widen(gate[i]), d = Widen(dy[i]), s = Sigmoid(g);
      up_gradient[i] = NarrowResult<T>(d * g * s);
      gate_gradient[i] = NarrowResult<T>(d * Widen(up[i]) * s * (1.0f + g * (1.0f - s)));
    }
  }
}

template <typename T>
TRIREME_INLINE void WeightedForwardBody(const T* gate_up, const float* weights, int64_t ffn, Rows rows,
                                        T* out) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn;
    const float weight = weights[row];
    T* y = out + row * ffn;
#pragma omp simd
    for (int64_t i = 0; i < ffn; ++i) {
      const float g = Widen(gate[i]);
      y[i] = NarrowResult<T>(g * Sigmoid(g) * Widen(up[i]) * weight);
    }
  }
}

template <typename T>
TRIREME_INLINE void WeightedBackwardBody(const T* gate_up, const float* weights, const T* gradient,
                                         int64_t ffn, Rows rows, T* out, float* weight_gradient) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *gate = gate_up + row * 2 * ffn, *up = gate + ffn, *dy = gradient + row * ffn;
    T *gate_gradient = out + row * 2 * ffn, *up_gradient = gate_gradient + ffn;
    const float weight = weights[row];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < ffn; ++i) {
      const float g = Widen(gate[i]), u = Widen(up[i]), s = Sigmoid(g), d = Widen(dy[i]), dw = d * weight;
      dot += d * g * s * u;
      up_gradient[i] = NarrowResult<T>(dw * g * s);
      gate_gradient[i] = NarrowResult<T>(dw * u * s * (1.0f + g * (1.0f - s)));
    }
    weight_gradient[row] = dot;
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
TRIREME_CLONES void WeightedSwiGluBackward(const Bf16* gate_up, const float* weights, const Bf16* gradient,
                                           int64_t ffn, Rows rows, Bf16* out, float* weight_gradient) {
  WeightedBackwardBody(gate_up, weights, gradient, ffn, rows, out, weight_gradient);
}
TRIREME_CLONES void SwiGluForward(const float* gate_up, int64_t ffn, Rows rows, float* out) {
  ForwardBody(gate_up, ffn, rows, out);
}
TRIREME_CLONES void SwiGluForward(const Bf16* gate_up, int64_t ffn, Rows rows, Bf16* out) {
  ForwardBody(gate_up, ffn, rows, out);
}
TRIREME_CLONES void SwiGluBackward(const float* gate_up, const float* gradient, int64_t ffn, Rows rows,
                                   float* out) {
  BackwardBody(gate_up, gradient, ffn, rows, out);
}
TRIREME_CLONES void SwiGluBackward(const Bf16* gate_up, const Bf16* gradient, int64_t ffn, Rows rows,
                                   Bf16* out) {
  BackwardBody(gate_up, gradient, ffn, rows, out);
}

}  // namespace trireme::cpu
