// The part of blocked attention between its matmuls: scores to probabilities, and its gradient. A block has
// query rows against keys [0, keys); row i is at position first + i / group, since the heads that share a
// key-value head are adjacent. Causal: a row attends to keys up to its own position, with a window to the last of
// those.
#pragma once

#include <cstdint>

#include "ops/cpu/simd.h"

namespace trireme::cpu {

struct ScoreBlock {
  int64_t rows = 0;    // positions · group
  int64_t keys = 0;    // columns, also the stride; at least the last row's position + 1
  int64_t first = 0;   // position of row 0
  int64_t group = 1;   // rows per position
  int64_t window = 0;  // keys that a row attends to at most; 0: any number
  float scale = 1;     // applied to the raw scores
};

// Exponentials relative to each row's largest score, not yet divided by their sum; keys that it does not attend to get
// 0.
struct SoftmaxOut {
  float* inverse_sum;  // [rows]
  float* log_sum_exp;  // [rows]
};
void CausalSoftmax(const float* scores, const ScoreBlock& block, float* probabilities, const SoftmaxOut& out);
void CausalSoftmax(const float* scores, const ScoreBlock& block, Bf16* probabilities, const SoftmaxOut& out);

// Both [rows, keys]: probabilities from the scores and the log-sum-exp, and the scores' gradient
// p · (dp - dot) · scale, where dp is the gradient of the probabilities and dot[row] = <output, its gradient>.
struct SoftmaxIn {
  const float* scores;
  const float* probability_gradient;
  const float* log_sum_exp;  // [rows]
  const float* dot;          // [rows]
};
void CausalSoftmaxBackward(const SoftmaxIn& in, const ScoreBlock& block, float* probabilities, float* gradient);
void CausalSoftmaxBackward(const SoftmaxIn& in, const ScoreBlock& block, Bf16* probabilities, Bf16* gradient);

// Soft caps, for scores that are scaled afterwards: s = cap · tanh(s / cap), in place; and the factor of that in the
// gradient, 1 - (s / cap)², from the capped scores.
void SoftCap(float* scores, int64_t count, float cap);
void SoftCapBackward(const float* capped, int64_t count, float cap, float* gradient);
void SoftCapBackward(const float* capped, int64_t count, float cap, Bf16* gradient);

// A partial result to merge: the mean of both, weighted by their log-sum-exps.
struct AttentionPart {
  const float* rows;         // [rows, dim], to be scaled by
  const float* factor;       // [rows]
  const float* log_sum_exp;  // [rows], finite
};
void MergePartial(const AttentionPart& part, int64_t rows, int64_t dim, float* output, float* log_sum_exp);

// Between a block's rows [positions · group, dim] and the model's layout, where a position's group is
// contiguous and positions are `stride` elements apart.
struct HeadBlock {
  int64_t positions = 0;
  int64_t group = 1;
  int64_t dim = 0;
  int64_t stride = 0;
};
// out = rows · factor[row]
void ScatterScaled(const float* rows, const float* factor, const HeadBlock& block, float* out);
void ScatterScaled(const float* rows, const float* factor, const HeadBlock& block, Bf16* out);
// rows = gradient; dot[row] = <output, gradient>
void GatherWithDot(const float* gradient, const float* output, const HeadBlock& block, float* rows, float* dot);
void GatherWithDot(const Bf16* gradient, const Bf16* output, const HeadBlock& block, Bf16* rows, float* dot);

void NarrowInto(const float* from, int64_t count, float* to);
void NarrowInto(const float* from, int64_t count, Bf16* to);

}  // namespace trireme::cpu
