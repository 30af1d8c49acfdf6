// silu(gate) · up over rows of a fused gate | up, and its gradient. Work is cut into tiles, each within one
// row.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

struct SwigluBuffers {
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> gates, ups, denominators;

  __aicore__ inline void Init(uint32_t tile, uint32_t element) {
    pipe.InitBuffer(in, 2, tile * element);
    pipe.InitBuffer(out, 2, tile * element);
    pipe.InitBuffer(gates, tile * sizeof(float));
    pipe.InitBuffer(ups, tile * sizeof(float));
    pipe.InitBuffer(denominators, tile * sizeof(float));
  }
};

// denominator = 1 + e^-gate: infinite for very negative gates, which then yield 0.
__aicore__ inline void SigmoidDenominator(const LocalTensor<float>& denominator, const LocalTensor<float>& gate,
                                          int32_t n) {
  PipeBarrier<PIPE_V>();
  Muls(denominator, gate, -1.0f, n);
  PipeBarrier<PIPE_V>();
  Exp(denominator, denominator, n);
  PipeBarrier<PIPE_V>();
  Adds(denominator, denominator, 1.0f, n);
}

template <typename T>
class SwigluForward : SwigluBuffers {
 public:
  __aicore__ inline void Run(GM_ADDR gate_up, GM_ADDR out_values, uint32_t rows, uint32_t ffn, uint32_t tile) {
    gate_up_ = GlobalOf<T>(gate_up, 2 * static_cast<uint64_t>(rows) * ffn);
    out_ = GlobalOf<T>(out_values, static_cast<uint64_t>(rows) * ffn);
    Init(tile, sizeof(T));
    const uint32_t tiles = (ffn + tile - 1) / tile;
    const Share share = MyShare(rows * tiles);
    for (uint32_t i = share.begin; i < share.end; ++i) {
      const uint32_t at = i % tiles * tile;
      Tile(i / tiles, at, Least(tile, ffn - at), ffn);
    }
  }

 private:
  __aicore__ inline void Tile(uint64_t row, uint32_t at, uint32_t count, uint32_t ffn) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> gate = gates.Get<float>(), up = ups.Get<float>(), denominator = denominators.Get<float>();
    LoadWide(in, gate_up_[row * 2 * ffn + at], gate, count);
    LoadWide(in, gate_up_[row * 2 * ffn + ffn + at], up, count);
    SigmoidDenominator(denominator, gate, n);
    PipeBarrier<PIPE_V>();
    Div(gate, gate, denominator, n);
    LocalTensor<T> y = out.AllocTensor<T>();
    RoundThrough(gate, y, count);  // as two separate operators would
    LocalTensor<float> result = ResultOf(y, gate);
    PipeBarrier<PIPE_V>();
    Mul(result, gate, up, n);
    Narrow(y, result, count);
    Store(out, y, out_[row * ffn + at], count);
  }

  GlobalTensor<T> gate_up_, out_;
};

template <typename T>
class SwigluBackward : SwigluBuffers {
 public:
  __aicore__ inline void Run(GM_ADDR gate_up, GM_ADDR gradient, GM_ADDR result, uint32_t rows, uint32_t ffn,
                             uint32_t tile) {
    gate_up_ = GlobalOf<T>(gate_up, 2 * static_cast<uint64_t>(rows) * ffn);
    gradient_ = GlobalOf<T>(gradient, static_cast<uint64_t>(rows) * ffn);
    result_ = GlobalOf<T>(result, 2 * static_cast<uint64_t>(rows) * ffn);
    Init(tile, sizeof(T));
    pipe.InitBuffer(gradients_, tile * sizeof(float));
    pipe.InitBuffer(sigmoids_, tile * sizeof(float));
    const uint32_t tiles = (ffn + tile - 1) / tile;
    const Share share = MyShare(rows * tiles);
    for (uint32_t i = share.begin; i < share.end; ++i) {
      const uint32_t at = i % tiles * tile;
      Tile(i / tiles, at, Least(tile, ffn - at), ffn);
    }
  }

 private:
  __aicore__ inline void Tile(uint64_t row, uint32_t at, uint32_t count, uint32_t ffn) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> gate = gates.Get<float>(), up = ups.Get<float>(), denominator = denominators.Get<float>();
    LocalTensor<float> gradient = gradients_.Get<float>(), sigmoid = sigmoids_.Get<float>();
    LoadWide(in, gate_up_[row * 2 * ffn + at], gate, count);
    LoadWide(in, gate_up_[row * 2 * ffn + ffn + at], up, count);
    LoadWide(in, gradient_[row * ffn + at], gradient, count);
    SigmoidDenominator(denominator, gate, n);
    Duplicate(sigmoid, 1.0f, n);
    PipeBarrier<PIPE_V>();
    Div(sigmoid, sigmoid, denominator, n);
    Div(gate, gate, denominator, n);  // silu
    LocalTensor<T> up_gradient = out.AllocTensor<T>();
    LocalTensor<float> wide = ResultOf(up_gradient, denominator);
    PipeBarrier<PIPE_V>();
    Mul(wide, gradient, gate, n);
    Narrow(up_gradient, wide, count);
    Store(out, up_gradient, result_[row * 2 * ffn + ffn + at], count);
    PipeBarrier<PIPE_V>();
    Mul(gradient, gradient, up, n);
    PipeBarrier<PIPE_V>();
    Mul(up, gate, sigmoid, n);  // the derivative of silu: sigmoid + silu - silu · sigmoid
    PipeBarrier<PIPE_V>();
    Sub(gate, gate, up, n);
    PipeBarrier<PIPE_V>();
    Add(gate, gate, sigmoid, n);
    LocalTensor<T> gate_gradient = out.AllocTensor<T>();
    wide = ResultOf(gate_gradient, gate);
    PipeBarrier<PIPE_V>();
    Mul(wide, gradient, gate, n);
    Narrow(gate_gradient, wide, count);
    Store(out, gate_gradient, result_[row * 2 * ffn + at], count);
  }

  TBuf<> gradients_, sigmoids_;
  GlobalTensor<T> gate_up_, gradient_, result_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void swiglu_forward(GM_ADDR gate_up, GM_ADDR out, uint32_t type, uint32_t rows,
                                                     uint32_t ffn, uint32_t tile) {
  trireme_kernels::ByType<trireme_kernels::SwigluForward>(type, gate_up, out, rows, ffn, tile);
}

extern "C" __global__ __aicore__ void swiglu_backward(GM_ADDR gate_up, GM_ADDR gradient, GM_ADDR result, uint32_t type,
                                                      uint32_t rows, uint32_t ffn, uint32_t tile) {
  trireme_kernels::ByType<trireme_kernels::SwigluBackward>(type, gate_up, gradient, result, rows, ffn, tile);
}
