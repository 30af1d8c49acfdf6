#include "ops/qkv_norm_rope/cpu.h"

#include "ops/cpu/lanes.h"

namespace trireme::cpu {
namespace {

// A head's elements in fp32 as the loops hold them: in order or, for bf16, which is read in pairs, first the
// even elements, then the odd ones. A rotation then works on each part separately.
template <typename T>
constexpr int64_t kParts = sizeof(T) == sizeof(float) ? 1 : 2;

TRIREME_INLINE void Read(const float* x, int64_t count, float* wide) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) wide[i] = x[i];
}
TRIREME_INLINE void Read(const Bf16* x, int64_t count, float* wide) {
  const int64_t half = count / 2;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    wide[i] = Even(PairsOf(x)[i]);
    wide[half + i] = Odd(PairsOf(x)[i]);
  }
}
TRIREME_INLINE void Write(const float* wide, int64_t count, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = wide[i];
}
TRIREME_INLINE void Write(const float* wide, int64_t count, Bf16* out) {
  const int64_t half = count / 2;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) PairsOf(out)[i] = PairWith(wide[i], wide[half + i]);
}

// Numbers in order, such as a token's cosines, as the loops hold them; and the inverse, added to a sum.
template <int64_t parts>
TRIREME_INLINE void Part(const float* in_order, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i % parts * (count / parts) + i / parts] = in_order[i];
}
template <int64_t parts>
TRIREME_INLINE void AddJoined(const float* in_parts, int64_t count, float* sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += in_parts[i % parts * (count / parts) + i / parts];
}

struct Turn {
  float cosine[kLargestHead / 2], sine[kLargestHead / 2];

  template <int64_t parts>
  TRIREME_INLINE void Take(const HeadTable& table, int64_t token, int64_t half) {
    Part<parts>(table.cosine + token * half, half, cosine);
    Part<parts>(table.sine + token * half, half, sine);
  }
};

// The offset of head `h` of a token: query heads by group, then the key and the value heads.
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

// Rotates each part in place; with direction -1 back, which is the adjoint.
template <int64_t parts>
TRIREME_INLINE void TurnParts(const Turn& turn, int64_t dim, int64_t half, float direction, float* wide) {
  const int64_t part_dim = dim / parts, part_half = half / parts;
  for (int64_t part = 0; part < parts; ++part) {
    float *lower = wide + part * part_dim, *upper = lower + part_half;
    const float *cosine = turn.cosine + part * part_half, *sine = turn.sine + part * part_half;
#pragma omp simd
    for (int64_t i = 0; i < part_half; ++i) {
      const float a = lower[i], b = upper[i], c = cosine[i], s = sine[i] * direction;
      lower[i] = a * c - b * s;
      upper[i] = b * c + a * s;
    }
  }
}

// norm: as the loops hold it; null: none. Rounded before and after the weight is applied, as in transformers.
template <typename T>
TRIREME_INLINE void OneHead(const T* x, const float* norm, const Turn& turn, int64_t dim, int64_t half, float eps,
                            T* out, float* scale) {
  alignas(64) float wide[kLargestHead];
  Read(x, dim, wide);
  if (norm != nullptr) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < dim; ++i) squares += wide[i] * wide[i];
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(dim) + eps);
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) {
      wide[i] = RoundedResult<T>(RoundedResult<T>(wide[i] * factor) * norm[i]);
    }
    *scale = factor;
  }
  TurnParts<kParts<T>>(turn, dim, half, 1.0f, wide);
  Write(wide, dim, out);
}

// Norms as the loops hold them, or null.
struct PartedNorms {
  float query_values[kLargestHead], key_values[kLargestHead];
  const float *query = nullptr, *key = nullptr;

  template <typename T>
  TRIREME_INLINE PartedNorms(const HeadNorms<T>& norms, int64_t dim) {
    if (norms.query != nullptr) Read(norms.query, dim, query_values), query = query_values;
    if (norms.key != nullptr) Read(norms.key, dim, key_values), key = key_values;
  }
};

// dim and half: those of the layout, as constants where the compiler should know them.
template <typename T>
TRIREME_INLINE void SplitTokens(const T* qkv, const HeadLayout& l, int64_t dim, int64_t half, const HeadNorms<T>& norms,
                                const HeadTable& table, Rows tokens, const SplitTensors<T>& out, float* scales) {
  const int64_t width = (l.heads + 2 * l.kv_heads) * dim;
  const PartedNorms parted(norms, dim);
  Turn turn;
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const Place place{token / l.length, token % l.length};
    turn.Take<kParts<T>>(table, token, half);
    const T* x = qkv + token * width;
    float* scale = scales + token * (l.heads + l.kv_heads);
    for (int64_t h = 0; h < l.heads; ++h, x += dim, ++scale) {
      OneHead(x, parted.query, turn, dim, half, l.eps, out.query + place.Query(l, h), scale);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, x += dim, ++scale) {
      OneHead(x, parted.key, turn, dim, half, l.eps, out.key + place.Key(l, h), scale);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, x += dim) {
      std::memcpy(out.value + place.Key(l, h), x, sizeof(T) * dim);
    }
  }
}

template <typename T>
TRIREME_INLINE void SplitBody(const T* qkv, const HeadLayout& l, const HeadNorms<T>& norms, const HeadTable& table,
                              Rows tokens, const SplitTensors<T>& out, float* scales) {
  const auto with = [&](int64_t dim, int64_t half) __attribute__((always_inline)) {
    SplitTokens(qkv, l, dim, half, norms, table, tokens, out, scales);
  };
  if (l.dim == 128 && l.half == 64) return with(128, 64);
  if (l.dim == 64 && l.half == 32) return with(64, 32);
  with(l.dim, l.half);
}

// Through the norm: dx = (w · dy - n · mean(w · dy · n)) · scale, with n the normalised head; dy becomes dx.
template <typename T>
TRIREME_INLINE void NormaliseBackward(const T* x, const float* norm, float scale, int64_t dim, float* sum, float* dy) {
  alignas(64) float wide[kLargestHead];
  Read(x, dim, wide);
  const float shared = AddProducts(wide, dy, norm, dim, scale, sum) / static_cast<float>(dim) * scale;
#pragma omp simd
  for (int64_t i = 0; i < dim; ++i) dy[i] = (dy[i] * norm[i] - wide[i] * shared) * scale;
}

template <typename T>
TRIREME_INLINE void OneHeadBackward(const T* x, const T* gradient, const float* norm, const Turn& turn, int64_t dim,
                                    int64_t half, float scale, float* sum, T* dx) {
  alignas(64) float dy[kLargestHead];
  Read(gradient, dim, dy);
  TurnParts<kParts<T>>(turn, dim, half, -1.0f, dy);
  if (norm != nullptr) NormaliseBackward(x, norm, scale, dim, sum, dy);
  Write(dy, dim, dx);
}

template <typename T>
TRIREME_INLINE void BackwardTokens(const T* qkv, const SplitTensors<const T>& gradients, const HeadLayout& l,
                                   int64_t dim, int64_t half, const HeadNorms<T>& norms, const HeadTable& table,
                                   Rows tokens, const float* scales, T* qkv_gradient, const HeadNormSums& sums) {
  const int64_t width = (l.heads + 2 * l.kv_heads) * dim;
  const PartedNorms parted(norms, dim);
  float query_sum[kLargestHead] = {}, key_sum[kLargestHead] = {};
  Turn turn;
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const Place place{token / l.length, token % l.length};
    turn.Take<kParts<T>>(table, token, half);
    const T* x = qkv + token * width;
    T* dx = qkv_gradient + token * width;
    const float* scale = scales + token * (l.heads + l.kv_heads);
    for (int64_t h = 0; h < l.heads; ++h, x += dim, dx += dim, ++scale) {
      OneHeadBackward(x, gradients.query + place.Query(l, h), parted.query, turn, dim, half, *scale, query_sum, dx);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, x += dim, dx += dim, ++scale) {
      OneHeadBackward(x, gradients.key + place.Key(l, h), parted.key, turn, dim, half, *scale, key_sum, dx);
    }
    for (int64_t h = 0; h < l.kv_heads; ++h, dx += dim) {
      std::memcpy(dx, gradients.value + place.Key(l, h), sizeof(T) * dim);
    }
  }
  if (sums.query != nullptr) AddJoined<kParts<T>>(query_sum, dim, sums.query);
  if (sums.key != nullptr) AddJoined<kParts<T>>(key_sum, dim, sums.key);
}

template <typename T>
TRIREME_INLINE void SplitBackwardBody(const T* qkv, const SplitTensors<const T>& gradients, const HeadLayout& l,
                                      const HeadNorms<T>& norms, const HeadTable& table, Rows tokens,
                                      const float* scales, T* qkv_gradient, const HeadNormSums& sums) {
  const auto with = [&](int64_t dim, int64_t half) __attribute__((always_inline)) {
    BackwardTokens(qkv, gradients, l, dim, half, norms, table, tokens, scales, qkv_gradient, sums);
  };
  if (l.dim == 128 && l.half == 64) return with(128, 64);
  if (l.dim == 64 && l.half == 32) return with(64, 32);
  with(l.dim, l.half);
}

}  // namespace

TRIREME_CLONES void SplitHeads(const float* qkv, const HeadLayout& layout, const HeadNorms<float>& norms,
                               const HeadTable& table, Rows tokens, const SplitTensors<float>& out, float* scales) {
  SplitBody(qkv, layout, norms, table, tokens, out, scales);
}
TRIREME_CLONES void SplitHeads(const Bf16* qkv, const HeadLayout& layout, const HeadNorms<Bf16>& norms,
                               const HeadTable& table, Rows tokens, const SplitTensors<Bf16>& out, float* scales) {
  SplitBody(qkv, layout, norms, table, tokens, out, scales);
}
TRIREME_CLONES void SplitHeadsBackward(const float* qkv, const SplitTensors<const float>& gradients,
                                       const HeadLayout& layout, const HeadNorms<float>& norms, const HeadTable& table,
                                       Rows tokens, const float* scales, float* qkv_gradient,
                                       const HeadNormSums& sums) {
  SplitBackwardBody(qkv, gradients, layout, norms, table, tokens, scales, qkv_gradient, sums);
}
TRIREME_CLONES void SplitHeadsBackward(const Bf16* qkv, const SplitTensors<const Bf16>& gradients,
                                       const HeadLayout& layout, const HeadNorms<Bf16>& norms, const HeadTable& table,
                                       Rows tokens, const float* scales, Bf16* qkv_gradient, const HeadNormSums& sums) {
  SplitBackwardBody(qkv, gradients, layout, norms, table, tokens, scales, qkv_gradient, sums);
}

}  // namespace trireme::cpu
