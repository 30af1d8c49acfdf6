// The experts' router: scores of each token's logits (softmax or sigmoid) in fp32, the top k of them, and the
// gradient. An optional bias affects the choice, not the weights; if experts are in groups, only those of a
// token's best groups are chosen. On ties the first is chosen.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

constexpr uint32_t kSigmoid = 1, kBias = 2, kNormalise = 4, kTwoOfGroup = 8;  // bits of `mode`
constexpr float kNever = -3.0e38f;

struct RouterNumbers {
  uint32_t tokens, experts, top, mode;
  float scale, eps;             // of the weights; added to the normalising sum
  uint32_t groups, top_groups;  // of experts; 1 of 1 if all may be chosen
};

__aicore__ inline uint32_t Padded(uint32_t count) { return (count + 63) / 64 * 64; }

template <typename T>
class RouterForward {
 public:
  __aicore__ inline void Run(GM_ADDR logits, GM_ADDR bias, GM_ADDR probabilities, GM_ADDR index, GM_ADDR weights,
                             RouterNumbers numbers) {
    n_ = numbers;
    const uint64_t size = static_cast<uint64_t>(n_.tokens) * n_.experts,
                   chosen = static_cast<uint64_t>(n_.tokens) * n_.top;
    logits_ = GlobalOf<T>(logits, size), probabilities_ = GlobalOf<float>(probabilities, size);
    index_ = GlobalOf<int32_t>(index, chosen), weights_ = GlobalOf<float>(weights, chosen);
    const uint32_t bytes = Padded(n_.experts) * sizeof(float);
    pipe.InitBuffer(in, 2, bytes);
    pipe.InitBuffer(out, 1, bytes);
    pipe.InitBuffer(chosen_weights_, 1, Padded(n_.top) * sizeof(float));
    pipe.InitBuffer(chosen_index_, 1, Padded(n_.top) * sizeof(float));
    pipe.InitBuffer(worths_, Padded(n_.groups) * sizeof(float));
    for (TBuf<>* buffer : {&scores_, &biases_, &scratch_}) pipe.InitBuffer(*buffer, bytes);
    const Share share = MyShare(n_.tokens);
    if (share.begin == share.end) return;
    if ((n_.mode & kBias) != 0) LoadWide(in, GlobalOf<float>(bias, n_.experts), biases_.Get<float>(), n_.experts);
    for (uint32_t token = share.begin; token < share.end; ++token) Token(token);
  }

 private:
  __aicore__ inline void Token(uint32_t token) {
    const int32_t n = static_cast<int32_t>(n_.experts);
    LocalTensor<float> probability = out.AllocTensor<float>(), score = scores_.Get<float>();
    LoadWide(in, logits_[static_cast<uint64_t>(token) * n_.experts], probability, n_.experts);
    if ((n_.mode & kSigmoid) != 0) {
      Sigmoid(probability, n);
    } else {
      Softmax(probability, n);
    }
    PipeBarrier<PIPE_V>();
    if ((n_.mode & kBias) != 0) {
      Add(score, probability, biases_.Get<float>(), n);
    } else {
      Muls(score, probability, 1.0f, n);
    }
    if (n_.top_groups < n_.groups) CloseGroups(score);
    Choose(probability, score, token);
    Store(out, probability, probabilities_[static_cast<uint64_t>(token) * n_.experts], n_.experts);
  }

  __aicore__ inline void Softmax(const LocalTensor<float>& x, int32_t n) {
    LocalTensor<float> scratch = scratch_.Get<float>();
    PipeBarrier<PIPE_V>();
    ReduceMax(scratch, x, scratch, n, false);
    Adds(x, x, -Read(scratch, 0), n);
    PipeBarrier<PIPE_V>();
    Exp(x, x, n);
    PipeBarrier<PIPE_V>();
    ReduceSum(scratch, x, scratch, n);
    const float sum = Read(scratch, 0);
    Duplicate(scratch, sum, n);
    PipeBarrier<PIPE_V>();
    Div(x, x, scratch, n);
  }
  __aicore__ inline void Sigmoid(const LocalTensor<float>& x, int32_t n) {
    LocalTensor<float> scratch = scratch_.Get<float>();
    PipeBarrier<PIPE_V>();
    Muls(x, x, -1.0f, n);
    PipeBarrier<PIPE_V>();
    Exp(x, x, n);
    PipeBarrier<PIPE_V>();
    Adds(x, x, 1.0f, n);
    Duplicate(scratch, 1.0f, n);
    PipeBarrier<PIPE_V>();
    Div(x, scratch, x, n);
  }

  // Masks the experts of all but the best groups. On the scalar unit: groups are small and not aligned for
  // the vector unit.
  __aicore__ inline void CloseGroups(const LocalTensor<float>& score) {
    const uint32_t size = n_.experts / n_.groups;
    LocalTensor<float> worth = worths_.Get<float>();
    Wait<HardEvent::V_S>();
    for (uint32_t group = 0; group < n_.groups; ++group) worth.SetValue(group, Worth(score, group * size, size));
    for (uint32_t i = 0; i < n_.top_groups; ++i) worth.SetValue(BestGroup(worth), kNever);
    for (uint32_t group = 0; group < n_.groups; ++group) {
      if (worth.GetValue(group) == kNever) continue;  // one of the best groups
      for (uint32_t i = 0; i < size; ++i) score.SetValue(group * size + i, kNever);
    }
    Wait<HardEvent::S_V>();
  }
  // The largest score of a group, or the sum of the largest two.
  __aicore__ inline float Worth(const LocalTensor<float>& score, uint32_t begin, uint32_t size) {
    float first = kNever, second = kNever;
    for (uint32_t i = 0; i < size; ++i) {
      const float value = score.GetValue(begin + i);
      if (value > first) {
        second = first, first = value;
      } else if (value > second) {
        second = value;
      }
    }
    return (n_.mode & kTwoOfGroup) != 0 && size > 1 ? first + second : first;
  }
  __aicore__ inline uint32_t BestGroup(const LocalTensor<float>& worth) {
    uint32_t best = 0;
    for (uint32_t group = 1; group < n_.groups; ++group) {
      if (worth.GetValue(group) > worth.GetValue(best)) best = group;
    }
    return best;
  }

  // The largest score, k times; each is then masked.
  __aicore__ inline void Choose(const LocalTensor<float>& probability, const LocalTensor<float>& score,
                                uint32_t token) {
    const int32_t n = static_cast<int32_t>(n_.experts), k = static_cast<int32_t>(n_.top);
    LocalTensor<float> best = scratch_.Get<float>();
    LocalTensor<float> weight = chosen_weights_.AllocTensor<float>();
    LocalTensor<int32_t> index = chosen_index_.AllocTensor<int32_t>();
    float sum = 0;
    PipeBarrier<PIPE_V>();
    for (uint32_t i = 0; i < n_.top; ++i) {
      ReduceMax(best, score, best, n, true);
      Wait<HardEvent::V_S>();
      const uint32_t found = best.ReinterpretCast<uint32_t>().GetValue(1);
      const uint32_t expert = Least(found, n_.experts - 1);  // if all scores are NaN, there is no largest
      const float value = probability.GetValue(expert);
      score.SetValue(expert, kNever);
      weight.SetValue(i, value);
      index.SetValue(i, static_cast<int32_t>(expert));
      sum += value;
      Wait<HardEvent::S_V>();
    }
    Muls(weight, weight, (n_.mode & kNormalise) != 0 ? n_.scale / (sum + n_.eps) : n_.scale, k);
    const uint64_t place = static_cast<uint64_t>(token) * n_.top;
    Store(chosen_weights_, weight, weights_[place], n_.top);
    Store(chosen_index_, index, index_[place], n_.top);
  }

  TPipe pipe;
  InQueue in;
  OutQueue out, chosen_weights_, chosen_index_;
  TBuf<> scores_, biases_, scratch_, worths_;
  GlobalTensor<T> logits_;
  GlobalTensor<float> probabilities_, weights_;
  GlobalTensor<int32_t> index_;
  RouterNumbers n_;
};

// From the gradient of the weights, and of the probabilities if another loss has one, to the gradient of the
// logits.
template <typename T>
class RouterBackward {
 public:
  __aicore__ inline void Run(GM_ADDR probabilities, GM_ADDR index, GM_ADDR weight_gradient,
                             GM_ADDR probability_gradient, GM_ADDR logit_gradient, RouterNumbers numbers,
                             uint32_t has_probability_gradient) {
    n_ = numbers;
    const uint64_t size = static_cast<uint64_t>(n_.tokens) * n_.experts,
                   chosen = static_cast<uint64_t>(n_.tokens) * n_.top;
    probabilities_ = GlobalOf<float>(probabilities, size), given_ = GlobalOf<float>(probability_gradient, size);
    index_ = GlobalOf<int32_t>(index, chosen), weight_gradient_ = GlobalOf<float>(weight_gradient, chosen);
    result_ = GlobalOf<T>(logit_gradient, size);
    const uint32_t bytes = Padded(n_.experts) * sizeof(float);
    pipe.InitBuffer(in, 2, bytes);
    pipe.InitBuffer(out, 1, bytes);
    for (TBuf<>* buffer : {&gradients_, &values_, &scratch_}) pipe.InitBuffer(*buffer, bytes);
    const Share share = MyShare(n_.tokens);
    for (uint32_t token = share.begin; token < share.end; ++token) Token(token, has_probability_gradient != 0);
  }

 private:
  __aicore__ inline void Token(uint32_t token, bool given) {
    const int32_t n = static_cast<int32_t>(n_.experts);
    const uint64_t place = static_cast<uint64_t>(token) * n_.experts;
    LocalTensor<float> gradient = gradients_.Get<float>(), p = values_.Get<float>(), scratch = scratch_.Get<float>();
    LoadWide(in, probabilities_[place], p, n_.experts);
    if (given) {
      LoadWide(in, given_[place], gradient, n_.experts);
    } else {
      Duplicate(gradient, 0.0f, n);
    }
    AddChosen(token, p, gradient);
    LocalTensor<T> result = out.AllocTensor<T>();
    if ((n_.mode & kSigmoid) != 0) {
      Mul(scratch, p, p, n);  // p · (1 - p)
      PipeBarrier<PIPE_V>();
      Sub(scratch, p, scratch, n);
    } else {
      Mul(scratch, gradient, p, n);
      PipeBarrier<PIPE_V>();
      ReduceSum(scratch, scratch, scratch, n);
      Adds(gradient, gradient, -Read(scratch, 0), n);
      Muls(scratch, p, 1.0f, n);
    }
    const LocalTensor<float> wide = ResultOf(result, gradient);
    PipeBarrier<PIPE_V>();
    Mul(wide, gradient, scratch, n);
    Narrow(result, wide, n_.experts);
    Store(out, result, result_[place], n_.experts);
  }

  // Normalised weights are w = scale · p / Σp: their gradient reaches p as scale · (g - Σ g p / Σp) / Σp.
  __aicore__ inline void AddChosen(uint32_t token, const LocalTensor<float>& p, const LocalTensor<float>& gradient) {
    const uint64_t place = static_cast<uint64_t>(token) * n_.top;
    Wait<HardEvent::V_S>();
    float sum = n_.eps, product = 0;
    for (uint32_t i = 0; i < n_.top; ++i) {
      const float value = p.GetValue(static_cast<uint32_t>(index_.GetValue(place + i)));
      sum += value;
      product += value * weight_gradient_.GetValue(place + i);
    }
    const bool normalise = (n_.mode & kNormalise) != 0;
    for (uint32_t i = 0; i < n_.top; ++i) {
      const uint32_t expert = static_cast<uint32_t>(index_.GetValue(place + i));
      const float g = weight_gradient_.GetValue(place + i);
      const float reached = n_.scale * (normalise ? (g - product / sum) / sum : g);
      gradient.SetValue(expert, gradient.GetValue(expert) + reached);
    }
    Wait<HardEvent::S_V>();
  }

  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> gradients_, values_, scratch_;
  GlobalTensor<float> probabilities_, given_, weight_gradient_;
  GlobalTensor<int32_t> index_;
  GlobalTensor<T> result_;
  RouterNumbers n_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void router_forward(GM_ADDR logits, GM_ADDR bias, GM_ADDR probabilities, GM_ADDR index,
                                                     GM_ADDR weights, uint32_t type, uint32_t tokens, uint32_t experts,
                                                     uint32_t top, uint32_t mode, float scale, float eps,
                                                     uint32_t groups, uint32_t top_groups) {
  trireme_kernels::ByType<trireme_kernels::RouterForward>(
      type, logits, bias, probabilities, index, weights,
      trireme_kernels::RouterNumbers{tokens, experts, top, mode, scale, eps, groups, top_groups});
}

extern "C" __global__ __aicore__ void router_backward(GM_ADDR probabilities, GM_ADDR index, GM_ADDR weight_gradient,
                                                      GM_ADDR probability_gradient, GM_ADDR logit_gradient,
                                                      uint32_t type, uint32_t tokens, uint32_t experts, uint32_t top,
                                                      uint32_t mode, float scale, float eps,
                                                      uint32_t has_probability_gradient) {
  trireme_kernels::ByType<trireme_kernels::RouterBackward>(
      type, probabilities, index, weight_gradient, probability_gradient, logit_gradient,
      trireme_kernels::RouterNumbers{tokens, experts, top, mode, scale, eps, 1, 1}, has_probability_gradient);
}
