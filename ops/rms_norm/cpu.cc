#include "ops/rms_norm/cpu.h"

#include <vector>

#include "ops/cpu/lanes.h"

namespace trireme::cpu {
namespace {

TRIREME_INLINE float Plus(float x, float y) { return x + y; }
TRIREME_INLINE float Square(float x) { return x * x; }

template <typename T>
TRIREME_INLINE void ForwardBody(const RmsNormRows<T>& in, Rows rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t offset = row * in.size;
    const T* x = in.x + offset;
    if (in.branch != nullptr) {  // rounded as ATen would
      Map(in.size, in.sum + offset, Plus, x, in.branch + offset);
      x = in.sum + offset;
    }
    const float squares = SumOf(in.size, Square, x);
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(in.size) + in.eps);
    in.scale[row] = scale;
    // As in transformers: the normalised value is rounded before the weight is applied.
    const auto normalised = [&](float value, float weight)
                                __attribute__((always_inline)) { return RoundedResult<T>(value * scale) * weight; };
    Map(in.size, in.y + offset, normalised, x, in.weight);
  }
}

using trireme::cpu::AddProducts;

// The same for bf16; the sums are ordered: even elements first, then odd ones.
TRIREME_INLINE float AddProducts(const Bf16* x, const Bf16* dy, const Bf16* weight, int64_t size, float scale,
                                 float* sums) {
  float* odd_sums = sums + (size + 1) / 2;
  float even = 0, odd = 0;
#pragma omp simd reduction(+ : even, odd)
  for (int64_t i = 0; i < size / 2; ++i) {
    const float first = Even(PairsOf(dy)[i]) * (Even(PairsOf(x)[i]) * scale);
    const float second = Odd(PairsOf(dy)[i]) * (Odd(PairsOf(x)[i]) * scale);
    sums[i] += first;
    odd_sums[i] += second;
    even += first * Even(PairsOf(weight)[i]);
    odd += second * Odd(PairsOf(weight)[i]);
  }
  if (size % 2 == 0) return even + odd;
  const float last = Widen(dy[size - 1]) * (Widen(x[size - 1]) * scale);
  sums[size / 2] += last;
  return even + odd + last * Widen(weight[size - 1]);
}

TRIREME_INLINE void AddInOrder(const float* sums, int64_t size, const float*, float* weight_sum) {
  for (int64_t i = 0; i < size; ++i) weight_sum[i] += sums[i];
}
TRIREME_INLINE void AddInOrder(const float* sums, int64_t size, const Bf16*, float* weight_sum) {
  for (int64_t i = 0; i < size; ++i) weight_sum[i] += sums[i / 2 + (i % 2) * ((size + 1) / 2)];
}

template <typename T>
TRIREME_INLINE void BackwardBody(const RmsNormBackwardRows<T>& in, Rows rows, float* weight_sum) {
  std::vector<float> sums(in.size);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t offset = row * in.size;
    const T *x = in.x + offset, *dy = in.y_gradient + offset;
    const float scale = in.scale[row];
    const float dot = AddProducts(x, dy, in.weight, in.size, scale, sums.data());
    const float shared = dot / static_cast<float>(in.size) * scale;
    const auto gradient = [&](float d, float v, float w)
                              __attribute__((always_inline)) { return (d * w - v * shared) * scale; };
    const auto with_carried = [&](float d, float v, float w, float carried)
                                  __attribute__((always_inline)) { return carried + gradient(d, v, w); };
    if (in.sum_gradient == nullptr) {
      Map(in.size, in.x_gradient + offset, gradient, dy, x, in.weight);
    } else {
      Map(in.size, in.x_gradient + offset, with_carried, dy, x, in.weight, in.sum_gradient + offset);
    }
  }
  AddInOrder(sums.data(), in.size, in.weight, weight_sum);
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
