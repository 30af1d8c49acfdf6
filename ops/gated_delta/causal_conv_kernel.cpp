// A causal convolution over the tokens of each channel, then silu, and the gradients of both: one pass over the tokens,
// each of which is read once. The last rows of inputs stay in the core, as many as there are taps. Work is cut into
// tiles of channels and segments of tokens; a segment begins by reading the rows before it, and its gradients end with
// those of the rows after it. Token t has places[t] tokens of its document before it.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

struct ConvShape {
  uint32_t tokens, channels, taps, tile, segments;
};

// A tile of channels in a segment of tokens: what both directions have. Rows are fp32, a tile long.
template <typename T>
class ConvRows {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR places, const ConvShape& shape) {
    s = shape;
    x_ = GlobalOf<T>(x, static_cast<uint64_t>(s.tokens) * s.channels);
    weight_ = GlobalOf<float>(weight, static_cast<uint64_t>(s.taps) * s.channels);
    places_ = GlobalOf<int32_t>(places, s.tokens);
    pipe.InitBuffer(in, 2, s.tile * sizeof(float));
    pipe.InitBuffer(out, 2, s.tile * sizeof(float));
    for (TBuf<>* buffer : {&inputs_, &weights_}) pipe.InitBuffer(*buffer, s.taps * s.tile * sizeof(float));
    for (TBuf<>* buffer : {&sum_, &sigmoid_}) pipe.InitBuffer(*buffer, s.tile * sizeof(float));
  }
  __aicore__ inline void Begin(uint32_t tile, uint32_t segment) {
    at = tile * s.tile, count = Least(s.tile, s.channels - at), n = static_cast<int32_t>(count);
    begin = static_cast<uint32_t>(static_cast<uint64_t>(s.tokens) * segment / s.segments);
    end = static_cast<uint32_t>(static_cast<uint64_t>(s.tokens) * (segment + 1) / s.segments);
    for (uint32_t tap = 0; tap < s.taps; ++tap) LoadWide(in, weight_[Place(tap)], WeightOf(tap), count);
    for (uint32_t t = begin > s.taps - 1 ? begin - (s.taps - 1) : 0; t < begin; ++t) Take(t);
  }
  __aicore__ inline void Take(uint32_t t) { LoadWide(in, x_[Place(t)], InputOf(t), count); }
  // sum = what silu is applied to, sigmoid = its sigmoid; token t has been taken. Returns how far back it reaches.
  __aicore__ inline uint32_t Mix(uint32_t t) {
    const uint32_t back = Least(s.taps - 1, static_cast<uint32_t>(places_.GetValue(t)));
    const LocalTensor<float> sum = Sum(), sigmoid = Sigmoid();
    PipeBarrier<PIPE_V>();
    Mul(sum, InputOf(t), WeightBack(0), n);
    for (uint32_t i = 1; i <= back; ++i) {
      PipeBarrier<PIPE_V>();
      MulAddDst(sum, InputOf(t - i), WeightBack(i), n);
    }
    PipeBarrier<PIPE_V>();
    Muls(sigmoid, sum, -1.0f, n);
    PipeBarrier<PIPE_V>();
    Exp(sigmoid, sigmoid, n);
    PipeBarrier<PIPE_V>();
    Adds(sigmoid, sigmoid, 1.0f, n);  // one over the sigmoid, for Div
    return back;
  }
  // Rounds a row and stores it.
  template <typename U>
  __aicore__ inline void Put(const GlobalTensor<U>& to, const LocalTensor<float>& row) {
    LocalTensor<U> made = out.AllocTensor<U>();
    PipeBarrier<PIPE_V>();
    if constexpr (IsFloat<U>::value) {
      Muls(made, row, 1.0f, n);
    } else {
      Cast(made, row, RoundMode::CAST_RINT, count);
    }
    Store(out, made, to, count);
  }
  __aicore__ inline uint64_t Place(uint32_t row) const { return static_cast<uint64_t>(row) * s.channels + at; }
  __aicore__ inline LocalTensor<float> RowOf(TBuf<>& rows, uint32_t t) {
    return rows.Get<float>()[t % s.taps * s.tile];
  }
  __aicore__ inline LocalTensor<float> InputOf(uint32_t t) { return RowOf(inputs_, t); }
  __aicore__ inline LocalTensor<float> WeightOf(uint32_t tap) { return RowOf(weights_, tap); }
  __aicore__ inline LocalTensor<float> WeightBack(uint32_t back) { return WeightOf(s.taps - 1 - back); }
  __aicore__ inline LocalTensor<float> Sum() { return sum_.Get<float>(); }
  __aicore__ inline LocalTensor<float> Sigmoid() { return sigmoid_.Get<float>(); }

  TPipe pipe;
  InQueue in;
  OutQueue out;
  ConvShape s = {};
  uint32_t at = 0, count = 0, begin = 0, end = 0;  // the tile's channels, the segment's tokens
  int32_t n = 0;                                   // count

 private:
  TBuf<> inputs_, weights_, sum_, sigmoid_;
  GlobalTensor<T> x_;
  GlobalTensor<float> weight_;
  GlobalTensor<int32_t> places_;
};

template <typename T>
class CausalConvForward {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR weight, GM_ADDR places, GM_ADDR y, ConvShape shape) {
    const uint32_t tiles = (shape.channels + shape.tile - 1) / shape.tile;
    const Share share = MyShare(tiles * shape.segments);
    if (share.begin == share.end) return;
    rows_.Init(x, weight, places, shape);
    const GlobalTensor<T> to = GlobalOf<T>(y, static_cast<uint64_t>(shape.tokens) * shape.channels);
    for (uint32_t item = share.begin; item < share.end; ++item) {
      rows_.Begin(item % tiles, item / tiles);
      for (uint32_t t = rows_.begin; t < rows_.end; ++t) {
        rows_.Take(t);
        rows_.Mix(t);
        PipeBarrier<PIPE_V>();
        Div(rows_.Sum(), rows_.Sum(), rows_.Sigmoid(), rows_.n);
        rows_.Put(to[rows_.Place(t)], rows_.Sum());
      }
    }
  }

 private:
  ConvRows<T> rows_;
};

template <typename T>
class CausalConvBackward {
 public:
  // weight_gradient: [segments, taps, channels]
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR weight, GM_ADDR places, GM_ADDR gradient, GM_ADDR x_gradient,
                             GM_ADDR weight_gradient, ConvShape shape) {
    const uint32_t tiles = (shape.channels + shape.tile - 1) / shape.tile;
    const Share share = MyShare(tiles * shape.segments);
    if (share.begin == share.end) return;
    const uint64_t size = static_cast<uint64_t>(shape.tokens) * shape.channels;
    rows_.Init(x, weight, places, shape);
    gradient_ = GlobalOf<T>(gradient, size), to_x_ = GlobalOf<T>(x_gradient, size);
    to_weight_ = GlobalOf<float>(weight_gradient, static_cast<uint64_t>(shape.segments) * shape.taps * shape.channels);
    for (TBuf<>* buffer : {&inputs_, &weights_})
      rows_.pipe.InitBuffer(*buffer, shape.taps * shape.tile * sizeof(float));
    rows_.pipe.InitBuffer(arriving_, shape.tile * sizeof(float));
    for (uint32_t item = share.begin; item < share.end; ++item) Item(item % tiles, item / tiles);
  }

 private:
  __aicore__ inline void Item(uint32_t tile, uint32_t segment) {
    const uint32_t taps = rows_.s.taps;
    rows_.Begin(tile, segment);
    for (uint32_t tap = 0; tap < taps; ++tap) Clear(rows_.RowOf(weights_, tap));
    const uint32_t last = Least(rows_.end + taps - 1, rows_.s.tokens);
    for (uint32_t t = rows_.begin; t < last; ++t) {
      rows_.Take(t);
      Token(t);
      if (t + 1 >= rows_.begin + taps && t + 1 < rows_.end + taps) PutInput(t + 1 - taps);
    }
    for (uint32_t t = last + 1 > rows_.begin + taps ? last + 1 - taps : rows_.begin; t < rows_.end; ++t) PutInput(t);
    for (uint32_t tap = 0; tap < taps; ++tap) {
      rows_.Put(to_weight_[rows_.Place(segment * taps + tap)], rows_.RowOf(weights_, tap));
    }
  }
  __aicore__ inline void Token(uint32_t t) {
    const uint32_t back = rows_.Mix(t);
    Arrive(t);
    const bool own = t < rows_.end;  // otherwise of the next segment, and only what reaches back counts
    const LocalTensor<float> arriving = arriving_.Get<float>();
    if (own) Clear(rows_.RowOf(inputs_, t));
    for (uint32_t i = 0; i <= back; ++i) {
      PipeBarrier<PIPE_V>();
      if (t >= rows_.begin + i && t < rows_.end + i)
        MulAddDst(rows_.RowOf(inputs_, t - i), arriving, rows_.WeightBack(i), rows_.n);
      if (own) MulAddDst(rows_.RowOf(weights_, rows_.s.taps - 1 - i), arriving, rows_.InputOf(t - i), rows_.n);
    }
  }
  // arriving_ = the gradient before silu: gradient · s (1 + x (1 - s)).
  __aicore__ inline void Arrive(uint32_t t) {
    const LocalTensor<float> sum = rows_.Sum(), sigmoid = rows_.Sigmoid(), arriving = arriving_.Get<float>();
    PipeBarrier<PIPE_V>();
    Duplicate(arriving, 1.0f, rows_.n);
    PipeBarrier<PIPE_V>();
    Div(sigmoid, arriving, sigmoid, rows_.n);
    PipeBarrier<PIPE_V>();
    Sub(arriving, arriving, sigmoid, rows_.n);
    PipeBarrier<PIPE_V>();
    Mul(arriving, arriving, sum, rows_.n);
    PipeBarrier<PIPE_V>();
    Adds(arriving, arriving, 1.0f, rows_.n);
    PipeBarrier<PIPE_V>();
    Mul(arriving, arriving, sigmoid, rows_.n);
    LoadWide(rows_.in, gradient_[rows_.Place(t)], sum, rows_.count);
    PipeBarrier<PIPE_V>();
    Mul(arriving, arriving, sum, rows_.n);
  }
  __aicore__ inline void Clear(const LocalTensor<float>& row) {
    PipeBarrier<PIPE_V>();
    Duplicate(row, 0.0f, rows_.n);
  }
  __aicore__ inline void PutInput(uint32_t t) { rows_.Put(to_x_[rows_.Place(t)], rows_.RowOf(inputs_, t)); }

  ConvRows<T> rows_;
  TBuf<> inputs_, weights_, arriving_;  // gradients of the last rows, and of the weights
  GlobalTensor<T> gradient_, to_x_;
  GlobalTensor<float> to_weight_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void causal_conv_forward(GM_ADDR x, GM_ADDR weight, GM_ADDR places, GM_ADDR y,
                                                          uint32_t type, uint32_t tokens, uint32_t channels,
                                                          uint32_t taps, uint32_t tile, uint32_t segments) {
  trireme_kernels::ByType<trireme_kernels::CausalConvForward>(
      type, x, weight, places, y, trireme_kernels::ConvShape{tokens, channels, taps, tile, segments});
}

extern "C" __global__ __aicore__ void causal_conv_backward(GM_ADDR x, GM_ADDR weight, GM_ADDR places, GM_ADDR gradient,
                                                           GM_ADDR x_gradient, GM_ADDR weight_gradient, uint32_t type,
                                                           uint32_t tokens, uint32_t channels, uint32_t taps,
                                                           uint32_t tile, uint32_t segments) {
  trireme_kernels::ByType<trireme_kernels::CausalConvBackward>(
      type, x, weight, places, gradient, x_gradient, weight_gradient,
      trireme_kernels::ConvShape{tokens, channels, taps, tile, segments});
}
