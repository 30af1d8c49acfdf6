#include "ops/attention/cpu.h"

#include <algorithm>
#include <limits>

namespace trireme::cpu {
namespace {

// The keys that a row attends to.
struct SeenKeys {
  int64_t begin, end;
  TRIREME_INLINE SeenKeys(const ScoreBlock& block, int64_t row) {
    const int64_t next = block.first + row / block.group + 1;
    begin = block.window > 0 && next > block.window ? next - block.window : 0;
    end = next < block.keys ? next : block.keys;
  }
};

template <typename T>
TRIREME_INLINE void ClearUnseen(T* row, const SeenKeys& seen, int64_t keys) {
  std::memset(static_cast<void*>(row), 0, sizeof(T) * seen.begin);
  std::memset(static_cast<void*>(row + seen.end), 0, sizeof(T) * (keys - seen.end));
}

template <typename T>
TRIREME_INLINE void SoftmaxBody(const float* scores, const ScoreBlock& block, T* probabilities, const SoftmaxOut& out) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const SeenKeys seen(block, row);
    const float* s = scores + row * block.keys;
    T* p = probabilities + row * block.keys;
    float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
    for (int64_t j = seen.begin; j < seen.end; ++j) largest = s[j] > largest ? s[j] : largest;
    const float scale = block.scale, shift = largest * scale;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      const float e = ExpUpTo88(s[j] * scale - shift);
      sum += e;
      p[j] = NarrowResult<T>(e);
    }
    ClearUnseen(p, seen, block.keys);
    out.inverse_sum[row] = 1.0f / sum;
    out.log_sum_exp[row] = shift + std::log(sum);
  }
}

template <typename T>
TRIREME_INLINE void SoftmaxBackwardBody(const SoftmaxIn& in, const ScoreBlock& block, T* probabilities, T* gradient) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const SeenKeys seen(block, row);
    const float *s = in.scores + row * block.keys, *dp = in.probability_gradient + row * block.keys;
    T *p = probabilities + row * block.keys, *ds = gradient + row * block.keys;
    const float scale = block.scale, shift = in.log_sum_exp[row], dot = in.dot[row];
#pragma omp simd
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      const float e = ExpUpTo88(s[j] * scale - shift);
      p[j] = NarrowResult<T>(e);
      ds[j] = NarrowResult<T>(e * (dp[j] - dot) * scale);
    }
    ClearUnseen(p, seen, block.keys);
    ClearUnseen(ds, seen, block.keys);
  }
}

template <typename T>
TRIREME_INLINE void ScatterBody(const float* rows, const float* factor, const HeadBlock& block, T* out) {
  for (int64_t row = 0; row < block.positions * block.group; ++row) {
    const float* from = rows + row * block.dim;
    T* to = out + row / block.group * block.stride + row % block.group * block.dim;
    const float f = factor[row];
#pragma omp simd
    for (int64_t i = 0; i < block.dim; ++i) to[i] = Narrow<T>(from[i] * f);
  }
}

template <typename T>
TRIREME_INLINE void GatherBody(const T* gradient, const T* output, const HeadBlock& block, T* rows, float* dot) {
  for (int64_t row = 0; row < block.positions * block.group; ++row) {
    const int64_t offset = row / block.group * block.stride + row % block.group * block.dim;
    const T *g = gradient + offset, *o = output + offset;
    T* to = rows + row * block.dim;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < block.dim; ++i) {
      to[i] = g[i];
      sum += Widen(g[i]) * Widen(o[i]);
    }
    dot[row] = sum;
  }
}

TRIREME_INLINE void MergeBody(const AttentionPart& part, int64_t rows, int64_t dim, float* output, float* log_sum_exp) {
  for (int64_t row = 0; row < rows; ++row) {
    const float before = log_sum_exp[row], fresh = part.log_sum_exp[row];
    const float largest = before > fresh ? before : fresh;
    const float old_share = ExpUpTo88(before - largest), new_share = ExpUpTo88(fresh - largest);
    const float sum = old_share + new_share;
    const float keep = old_share / sum, add = new_share / sum * part.factor[row];
    const float* from = part.rows + row * dim;
    float* to = output + row * dim;
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) to[i] = to[i] * keep + from[i] * add;
    log_sum_exp[row] = largest + std::log(sum);
  }
}

template <typename T>
TRIREME_INLINE void SoftCapBackwardBody(const float* capped, int64_t count, float cap, T* gradient) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float part = capped[i] / cap;
    gradient[i] = Narrow<T>(Widen(gradient[i]) * (1.0f - part * part));
  }
}

template <typename T>
TRIREME_INLINE void NarrowBody(const float* from, int64_t count, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = Narrow<T>(from[i]);
}

}  // namespace

TRIREME_CLONES void CausalSoftmax(const float* scores, const ScoreBlock& block, float* probabilities,
                                  const SoftmaxOut& out) {
  SoftmaxBody(scores, block, probabilities, out);
}
TRIREME_CLONES void CausalSoftmax(const float* scores, const ScoreBlock& block, Bf16* probabilities,
                                  const SoftmaxOut& out) {
  SoftmaxBody(scores, block, probabilities, out);
}
TRIREME_CLONES void CausalSoftmaxBackward(const SoftmaxIn& in, const ScoreBlock& block, float* probabilities,
                                          float* gradient) {
  SoftmaxBackwardBody(in, block, probabilities, gradient);
}
TRIREME_CLONES void CausalSoftmaxBackward(const SoftmaxIn& in, const ScoreBlock& block, Bf16* probabilities,
                                          Bf16* gradient) {
  SoftmaxBackwardBody(in, block, probabilities, gradient);
}
void SoftCap(float* scores, int64_t count, float cap) {
  for (int64_t i = 0; i < count; ++i) scores[i] = cap * std::tanh(scores[i] / cap);
}
TRIREME_CLONES void SoftCapBackward(const float* capped, int64_t count, float cap, float* gradient) {
  SoftCapBackwardBody(capped, count, cap, gradient);
}
TRIREME_CLONES void SoftCapBackward(const float* capped, int64_t count, float cap, Bf16* gradient) {
  SoftCapBackwardBody(capped, count, cap, gradient);
}
TRIREME_CLONES void MergePartial(const AttentionPart& part, int64_t rows, int64_t dim, float* output,
                                 float* log_sum_exp) {
  MergeBody(part, rows, dim, output, log_sum_exp);
}
TRIREME_CLONES void ScatterScaled(const float* rows, const float* factor, const HeadBlock& block, float* out) {
  ScatterBody(rows, factor, block, out);
}
TRIREME_CLONES void ScatterScaled(const float* rows, const float* factor, const HeadBlock& block, Bf16* out) {
  ScatterBody(rows, factor, block, out);
}
TRIREME_CLONES void GatherWithDot(const float* gradient, const float* output, const HeadBlock& block, float* rows,
                                  float* dot) {
  GatherBody(gradient, output, block, rows, dot);
}
TRIREME_CLONES void GatherWithDot(const Bf16* gradient, const Bf16* output, const HeadBlock& block, Bf16* rows,
                                  float* dot) {
  GatherBody(gradient, output, block, rows, dot);
}
TRIREME_CLONES void NarrowInto(const float* from, int64_t count, float* to) { NarrowBody(from, count, to); }
TRIREME_CLONES void NarrowInto(const float* from, int64_t count, Bf16* to) { NarrowBody(from, count, to); }

}  // namespace trireme::cpu
