#include "ops/cpu/heads.h"

namespace trireme::cpu {
namespace {

struct Turn {
  const float *cosine, *sine;
  int64_t half;
};

// Where head `h` of a token stands: query heads by group, then the key and the value heads.
struct Place {
  int64_t row, position;
  TRIREME_INLINE int64_t Query(const HeadLayout& l, int64_t h) const {
    const int64_t group = l.heads / l.kv_heads;
    return (((row * l.kv_heads + h / group) * l.length + position) * group + h % group) * l.dim;
  }
  TRIREME_INLINE int64_t Key(const HeadLayout& l, int64_t h) const {
    return ((row * l.kv_heads + h) * l.length + position) * l.dim;
  }
};

// The normalised head, rounded before and after it meets the weight, as transformers does. Returns the scale.
template <typename T>
TRIREME_INLINE float Normalise(const T* x, const T* norm, int64_t dim, float eps, float* out) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < dim; ++i) squares += Widen(x[i]) * Widen(x[i]);
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(dim) + eps);
#pragma omp simd
  for (int64_t i = 0; i < dim; ++i) {
    out[i] = Rounded<T>(Rounded<T>(Widen(x[i]) * scale) * Widen(norm[i]));
  }
  return scale;
}

template <typename T>
TRIREME_INLINE void OneHead(const T* x, const T* norm, const Turn& turn, const HeadLayout& layout, T* out,
                            float* scale) {
  float wide[kLargestHead];
  if (norm != nullptr) {
    *scale = Normalise(x, norm, layout.dim, layout.eps, wide);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < layout.dim; ++i) wide[i] = Widen(x[i]);
  }
  const int64_t half = turn.half;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = wide[i], b = wide[half + i], c = turn.cosine[i], s = turn.sine[i];
    out[i] = Narrow<T>(a * c - b * s);
    out[half + i] = Narrow<T>(b * c + a * s);
  }
  for (int64_t i = 2 * half; i < layout.dim; ++i) out[i] = Narrow<T>(wide[i]);
}

template <typename T>
TRIREME_INLINE void SplitBody(const T* qkv, const HeadLayout& l, const HeadNorms<T>& norms,
                              const HeadTable& table, Rows tokens, const SplitTensors<T>& out,
                              float* scales) {
  const int64_t width = (l.heads + 2 * l.kv_heads) * l.dim;
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const Place place{token / l.length, token % l.length};
    const Turn turn{table.cosine + token * l.half, table.sine + token * l.half, l.half};
    const T* x = qkv + token * width;
    float* scale = scales + token * (l.heads + l.kv_heads);
    for (int64_t h = 0; h < l.heads; ++h, x += l.dim, ++scale) {
      OneHead(x, norms.query, turn, l, out.query + place.Query(l, h), scale);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, x += l.dim, ++scale) {
      OneHead(x, norms.key, turn, l, out.key + place.Key(l, h), scale);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, x += l.dim) {
      std::memcpy(out.value + place.Key(l, h), x, sizeof(T) * l.dim);
    }
  }
}

// Through the norm: dx = (w · dy - n · mean(w · dy · n)) · scale, with n the normalised head.
template <typename T>
TRIREME_INLINE void NormaliseBackward(const T* x, const T* norm, float scale, const float* dy, int64_t dim,
                                      float* sum, T* dx) {
  float shared = 0;
#pragma omp simd reduction(+ : shared)
  for (int64_t i = 0; i < dim; ++i) {
    const float n = Widen(x[i]) * scale;
    sum[i] += dy[i] * n;
    shared += dy[i] * Widen(norm[i]) * n;
  }
  shared /= static_cast<float>(dim);
#pragma omp simd
  for (int64_t i = 0; i < dim; ++i) {
    dx[i] = Narrow<T>((dy[i] * Widen(norm[i]) - Widen(x[i]) * scale * shared) * scale);
  }
}

template <typename T>
TRIREME_INLINE void OneHeadBackward(const T* x, const T* gradient, const T* norm, const Turn& turn,
                                    int64_t dim, float scale, float* sum, T* dx) {
  float dy[kLargestHead];
  const int64_t half = turn.half;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {  // the adjoint of a turn is the turn back
    const float a = Widen(gradient[i]), b = Widen(gradient[half + i]);
    dy[i] = a * turn.cosine[i] + b * turn.sine[i];
    dy[half + i] = b * turn.cosine[i] - a * turn.sine[i];
  }
  for (int64_t i = 2 * half; i < dim; ++i) dy[i] = Widen(gradient[i]);
  if (norm != nullptr) return NormaliseBackward(x, norm, scale, dy, dim, sum, dx);
#pragma omp simd
  for (int64_t i = 0; i < dim; ++i) dx[i] = Narrow<T>(dy[i]);
}

template <typename T>
TRIREME_INLINE void SplitBackwardBody(const T* qkv, const SplitTensors<const T>& gradients,
                                      const HeadLayout& l, const HeadNorms<T>& norms, const HeadTable& table,
                                      Rows tokens, const float* scales, T* qkv_gradient,
                                      const HeadNormSums& sums) {
  const int64_t width = (l.heads + 2 * l.kv_heads) * l.dim;
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const Place place{token / l.length, token % l.length};
    const Turn turn{table.cosine + token * l.half, table.sine + token * l.half, l.half};
    const T* x = qkv + token * width;
    T* dx = qkv_gradient + token * width;
    const float* scale = scales + token * (l.heads + l.kv_heads);
    for (int64_t h = 0; h < l.heads; ++h, x += l.dim, dx += l.dim, ++scale) {
      OneHeadBackward(x, gradients.query + place.Query(l, h), norms.query, turn, l.dim, *scale, sums.query,
                      dx);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, x += l.dim, dx += l.dim, ++scale) {
      OneHeadBackward(x, gradients.key + place.Key(l, h), norms.key, turn, l.dim, *scale, sums.key, dx);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, dx += l.dim) {
      std::memcpy(dx, gradients.value + place.Key(l, h), sizeof(T) * l.dim);
    }
  }
}

}  // namespace

TRIREME_CLONES void SplitHeads(const float* qkv, const HeadLayout& layout, const HeadNorms<float>& norms,
                               const HeadTable& table, Rows tokens, const SplitTensors<float>& out,
                               float* scales) {
  SplitBody(qkv, layout, norms, table, tokens, out, scales);
}
TRIREME_CLONES void SplitHeads(const Bf16* qkv, const HeadLayout& layout, const HeadNorms<Bf16>& norms,
                               const HeadTable& table, Rows tokens, const SplitTensors<Bf16>& out,
                               float* scales) {
  SplitBody(qkv, layout, norms, table, tokens, out, scales);
}
TRIREME_CLONES void SplitHeadsBackward(const float* qkv, const SplitTensors<const float>& gradients,
                                       const HeadLayout& layout, const HeadNorms<float>& norms,
                                       const HeadTable& table, Rows tokens, const float* scales,
                                       float* qkv_gradient, const HeadNormSums& sums) {
  SplitBackwardBody(qkv, gradients, layout, norms, table, tokens, scales, qkv_gradient, sums);
}
TRIREME_CLONES void SplitHeadsBackward(const Bf16* qkv, const SplitTensors<const Bf16>& gradients,
                                       const HeadLayout& layout, const HeadNorms<Bf16>& norms,
                                       const HeadTable& table, Rows tokens, const float* scales,
                                       Bf16* qkv_gradient, const HeadNormSums& sums) {
  SplitBackwardBody(qkv, gradients, layout, norms, table, tokens, scales, qkv_gradient, sums);
}

}  // namespace trireme::cpu
