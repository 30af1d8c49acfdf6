#include "ops/cpu/rms_norm.h"

namespace trireme::cpu {
namespace {

// x + branch as ATen would round it, written out; returns the sum of its squares.
template <typename T>
TRIREME_INLINE float AddRow(const T* x, const T* branch, int64_t size, T* sum) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < size; ++i) {
    const T added = Narrow<T>(Widen(x[i]) + Widen(branch[i]));
    sum[i] = added;
    squares += Widen(added) * Widen(added);
  }
  return squares;
}

template <typename T>
TRIREME_INLINE float SquareRow(const T* x, int64_t size) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < size; ++i) squares += Widen(x[i]) * Widen(x[i]);
  return squares;
}

template <typename T>
TRIREME_INLINE void ForwardBody(const RmsNormRows<T>& in, Rows rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t offset = row * in.size;
    const T* x = in.x + offset;
    float squares;
    if (in.branch != nullptr) {
      squares = AddRow(x, in.branch + offset, in.size, in.sum + offset);
      x = in.sum + offset;
    } else {
      squares = SquareRow(x, in.size);
    }
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(in.size) + in.eps);
    in.scale[row] = scale;
    T* y = in.y + offset;
    const T* weight = in.weight;
    // As transformers does it: the normalised value is rounded before it meets the weight.
#pragma omp simd
    for (int64_t i = 0; i < in.size; ++i) {
      y[i] = Narrow<T>(Rounded<T>(Widen(x[i]) * scale) * Widen(weight[i]));
    }
  }
}

template <typename T>
TRIREME_INLINE void BackwardBody(const RmsNormBackwardRows<T>& in, Rows rows, float* weight_sum) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t offset = row * in.size;
    const T *x = in.x + offset, *dy = in.y_gradient + offset, *weight = in.weight;
    T* dx = in.x_gradient + offset;
    const float scale = in.scale[row];
    float shared = 0;
#pragma omp simd reduction(+ : shared)
    for (int64_t i = 0; i < in.size; ++i) {
      const float product = Widen(dy[i]) * (Widen(x[i]) * scale);
      weight_sum[i] += product;
      shared += product * Widen(weight[i]);
    }
    shared = shared / static_cast<float>(in.size) * scale;
    const auto gradient = [&](int64_t i) __attribute__((always_inline)) {
      return (Widen(dy[i]) * Widen(weight[i]) - Widen(x[i]) * shared) * scale;
    };
    if (in.sum_gradient == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < in.size; ++i) dx[i] = Narrow<T>(gradient(i));
    } else {
      const T* carried = in.sum_gradient + offset;
#pragma omp simd
      for (int64_t i = 0; i < in.size; ++i) dx[i] = Narrow<T>(Widen(carried[i]) + gradient(i));
    }
  }
}

}  // namespace

TRIREME_CLONES void RmsNormForward(const RmsNormRows<float>& in, Rows rows) { ForwardBody(in, rows); }
TRIREME_CLONES void RmsNormForward(const RmsNormRows<Bf16>& in, Rows rows) { ForwardBody(in, rows); }
TRIREME_CLONES void RmsNormBackward(const RmsNormBackwardRows<float>& in, Rows rows, float* weight_sum) {
  BackwardBody(in, rows, weight_sum);
}
TRIREME_CLONES void RmsNormBackward(const RmsNormBackwardRows<Bf16>& in, Rows rows, float* weight_sum) {
  BackwardBody(in, rows, weight_sum);
}

}  // namespace trireme::cpu
