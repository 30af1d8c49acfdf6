// A router's choice, a token a warp: scores, the top k, their weights; and the gradient of the logits.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kWarps = 8;
constexpr unsigned kAll = 0xffffffffu;

__device__ inline float WarpMax(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAll, x, step));
  return x;
}

__device__ inline int64_t TokenOfWarp() { return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; }

// Softmax or sigmoid of the experts lane, lane + 32, …; zero beyond the last.
template <int kEach>
__device__ inline void Scores(const RouterArgs& a, const float* logits, float (&score)[kEach]) {
  const int lane = threadIdx.x % 32;
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = lane + 32 * i;
    score[i] = expert < a.experts ? logits[expert] : -INFINITY;
    largest = fmaxf(largest, score[i]);
  }
  if (a.sigmoid) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) score[i] = 1.0f / (1.0f + expf(-score[i]));
    return;
  }
  largest = WarpMax(largest);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    score[i] = expf(score[i] - largest);
    sum += score[i];
  }
  sum = WarpSum(sum);
#pragma unroll
  for (int i = 0; i < kEach; ++i) score[i] /= sum;
}

// The best expert that is left, the first among equals; every lane gets it.
template <int kEach>
__device__ inline int Best(const float (&choice)[kEach]) {
  float best = -INFINITY;
  int index = INT32_MAX;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (choice[i] > best) {
      best = choice[i];
      index = threadIdx.x % 32 + 32 * i;
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAll, best, step);
    const int others = __shfl_xor_sync(kAll, index, step);
    if (other > best || (other == best && others < index)) {
      best = other;
      index = others;
    }
  }
  return index;
}

template <int kEach>
__global__ void __launch_bounds__(kWarps * 32) Choose(RouterArgs a) {
  const int64_t token = TokenOfWarp();
  if (token >= a.tokens) return;
  const int lane = threadIdx.x % 32;
  float score[kEach], choice[kEach];
  Scores<kEach>(a, a.logits + token * a.experts, score);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = lane + 32 * i;
    choice[i] = -INFINITY;
    if (expert >= a.experts) continue;
    a.scores[token * a.experts + expert] = score[i];
    choice[i] = score[i] + (a.bias == nullptr ? 0.0f : a.bias[expert]);
  }
  float weight = 0;  // lane t: that of choice t
  int mine = 0;
  for (int t = 0; t < a.top; ++t) {
    int expert = Best<kEach>(choice);
    if (expert >= a.experts) expert = t;  // none compares: the logits are not numbers
    float own = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i == expert) {
        own = score[i];
        choice[i] = -INFINITY;
      }
    }
    own = __shfl_sync(kAll, own, expert % 32);
    if (lane == t) {
      weight = own;
      mine = expert;
    }
  }
  if (a.normalise) weight /= WarpSum(weight) + a.eps;
  if (lane < a.top) {
    a.weights[token * a.top + lane] = weight * a.scale;
    a.index[token * a.top + lane] = mine;
  }
}

template <int kEach>
__global__ void __launch_bounds__(kWarps * 32) ChooseBackward(RouterArgs a) {
  const int64_t token = TokenOfWarp();
  if (token >= a.tokens) return;
  const int lane = threadIdx.x % 32;
  const float* scores = a.scores + token * a.experts;
  const bool chooses = lane < a.top;
  const int mine = chooses ? a.index[token * a.top + lane] : -1;
  const float own = chooses ? scores[mine] : 0.0f;
  float chosen = chooses ? a.weights[token * a.top + lane] * a.scale : 0.0f;  // gradient of its score
  if (a.normalise) {
    const float sum = WarpSum(own) + a.eps;
    chosen = (chosen - WarpSum(chosen * own) / sum) / sum;
  }
  float score[kEach], gradient[kEach], dot = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = lane + 32 * i;
    const bool real = expert < a.experts;
    score[i] = real ? scores[expert] : 0.0f;
    gradient[i] = real && a.scores_gradient != nullptr ? a.scores_gradient[token * a.experts + expert] : 0.0f;
  }
  for (int t = 0; t < a.top; ++t) {
    const int expert = __shfl_sync(kAll, mine, t);
    const float add = __shfl_sync(kAll, chosen, t);
#pragma unroll
    for (int i = 0; i < kEach; ++i) gradient[i] += lane + 32 * i == expert ? add : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) dot += score[i] * gradient[i];
  dot = WarpSum(dot);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = lane + 32 * i;
    if (expert >= a.experts) continue;
    a.logits_gradient[token * a.experts + expert] =
        score[i] * (a.sigmoid ? gradient[i] * (1 - score[i]) : gradient[i] - dot);
  }
}

template <typename Work>
int ByExperts(int experts, const Work& work) {
  if (experts <= 32) return work(Count<1>{});
  if (experts <= 64) return work(Count<2>{});
  if (experts <= 128) return work(Count<4>{});
  if (experts <= 256) return work(Count<8>{});
  return work(Count<16>{});
}

unsigned Blocks(int64_t tokens) { return static_cast<unsigned>((tokens + kWarps - 1) / kWarps); }

}  // namespace

int Router(const RouterArgs& a, void* stream) {
  if (a.tokens == 0) return 0;
  return ByExperts(a.experts, [&](auto each) {
    Choose<decltype(each)::value><<<Blocks(a.tokens), kWarps * 32, 0, On(stream)>>>(a);
    return Launched();
  });
}

int RouterBackward(const RouterArgs& a, void* stream) {
  if (a.tokens == 0) return 0;
  return ByExperts(a.experts, [&](auto each) {
    ChooseBackward<decltype(each)::value><<<Blocks(a.tokens), kWarps * 32, 0, On(stream)>>>(a);
    return Launched();
  });
}

}  // namespace trireme::cuda
