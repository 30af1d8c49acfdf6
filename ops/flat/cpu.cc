#include "ops/flat/cpu.h"

#include <algorithm>

namespace trireme::cpu {
namespace {

// Stores nothing: for a state whose master values are the parameters.
struct NoParameter {
  TRIREME_INLINE void Store(int64_t, float) const {}
};
template <typename T>
struct Parameter {
  T* values;
  TRIREME_INLINE void Store(int64_t i, float value) const { values[i] = Narrow<T>(value); }
};

template <typename Target>
TRIREME_INLINE void AdamWBody(const AdamWFactors& given, const AdamWState& state, Rows elements, Target target) {
  const AdamWFactors f = given;  // a local copy: the stores below cannot change it, so it stays in registers
  float *master = state.master, *exp_avg = state.exp_avg, *exp_avg_sq = state.exp_avg_sq;
  const float* gradient = state.gradient;
#pragma omp simd
  for (int64_t i = elements.begin; i < elements.end; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float m = exp_avg[i] * f.beta1 + g * f.one_minus_beta1;
    const float v = exp_avg_sq[i] * f.beta2 + g * g * f.one_minus_beta2;
    const float p = master[i] * f.decay - f.step_size * m / (std::sqrt(v) * f.inverse_correction + f.eps);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] = p;
    target.Store(i, p);
  }
}

template <typename T>
TRIREME_INLINE void AddBody(float* sum, const T* addend, Rows elements) {
#pragma omp simd
  for (int64_t i = elements.begin; i < elements.end; ++i) sum[i] += Widen(addend[i]);
}

}  // namespace

TRIREME_CLONES void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements, Bf16* parameter) {
  AdamWBody(factors, state, elements, Parameter<Bf16>{parameter});
}
TRIREME_CLONES void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements, float* parameter) {
  AdamWBody(factors, state, elements, Parameter<float>{parameter});
}
TRIREME_CLONES void AdamW(const AdamWFactors& factors, const AdamWState& state, Rows elements) {
  AdamWBody(factors, state, elements, NoParameter{});
}

// Squares are summed in double from the start: fp32 squares of large gradients overflow. In four chains,
// since a single one would wait for its own previous step.
TRIREME_CLONES double SumOfSquares(const float* values, Rows elements) {
  const int64_t quarter = (elements.end - elements.begin) / 4;
  const float *x = values + elements.begin, *rest = x + 4 * quarter, *end = values + elements.end;
  const auto square = [](float value) __attribute__((always_inline)) {
    return static_cast<double>(value) * static_cast<double>(value);
  };
  double a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
  for (int64_t i = 0; i < quarter; ++i) {
    a += square(x[i]);
    b += square(x[quarter + i]);
    c += square(x[2 * quarter + i]);
    d += square(x[3 * quarter + i]);
  }
  for (; rest < end; ++rest) a += square(*rest);
  return (a + b) + (c + d);
}

TRIREME_CLONES void AddInto(float* sum, const float* addend, Rows elements) { AddBody(sum, addend, elements); }
TRIREME_CLONES void AddInto(float* sum, const Bf16* addend, Rows elements) { AddBody(sum, addend, elements); }

}  // namespace trireme::cpu
