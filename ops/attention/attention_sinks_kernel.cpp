// Attention sinks: finished attention, row by row of a head's output, shrinks by the sink's part of the softmax, which
// joins the log-sum-exp. Rows are in the order of tokens, all heads of a token together: row r is of head r % heads. A
// row that has attended to no key has -inf. One pass over the output; rows are multiples of 32 bytes.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

using AscendC::BinaryRepeatParams;
using AscendC::Brcb;
using AscendC::BrcbRepeatParams;

constexpr uint32_t kMostRows = 64;

struct SinkShape {
  uint32_t rows, columns, heads, rows_at_once;
};

// output · exp(lse - both) and lse = both, with both = log(exp(lse) + exp(sink)).
template <typename T>
class AttentionSinks {
 public:
  // sinks: those of all heads, and kMostRows more from the first on again.
  __aicore__ inline void Run(GM_ADDR output, GM_ADDR lse, GM_ADDR sinks, SinkShape shape) {
    const uint32_t tiles = (shape.rows + shape.rows_at_once - 1) / shape.rows_at_once;
    const Share share = MyShare(tiles);
    if (share.begin == share.end) return;
    s_ = shape;
    output_ = GlobalOf<T>(output, static_cast<uint64_t>(s_.rows) * s_.columns), lse_ = GlobalOf<float>(lse, s_.rows);
    sinks_ = GlobalOf<float>(sinks, s_.heads + kMostRows);
    const uint32_t tile = s_.rows_at_once * s_.columns;
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    pipe.InitBuffer(line_in_, 2, kMostRows * sizeof(float));
    pipe.InitBuffer(line_out_, 2, kMostRows * sizeof(float));
    if (!IsFloat<T>::value) pipe.InitBuffer(wide_, tile * sizeof(float));
    pipe.InitBuffer(column_, kMostRows * 32);
    for (TBuf<>* buffer : {&own_, &sink_, &both_}) pipe.InitBuffer(*buffer, kMostRows * sizeof(float));
    PipeBarrier<PIPE_V>();
    Duplicate(own_.Get<float>(), 0.0f, static_cast<int32_t>(kMostRows));  // a column is made of whole blocks of it
    for (uint32_t i = share.begin; i < share.end; ++i) {
      const uint32_t row = i * s_.rows_at_once;
      Rows(row, Least(s_.rows_at_once, s_.rows - row));
    }
  }

 private:
  __aicore__ inline void Rows(uint32_t row, uint32_t count) {
    Weights(row, count);
    const uint64_t place = static_cast<uint64_t>(row) * s_.columns;
    const uint32_t elements = count * s_.columns;
    LocalTensor<T> loaded = Load(in, output_[place], elements);
    LocalTensor<T> made = out.AllocTensor<T>();
    if constexpr (IsFloat<T>::value) {
      Multiply(made, loaded, count);
    } else {
      const LocalTensor<float> wide = wide_.Get<float>();
      WidenInto(wide, loaded, elements);
      Multiply(wide, wide, count);
      Narrow(made, wide, elements);
    }
    in.FreeTensor(loaded);
    Store(out, made, output_[place], elements);
  }
  __aicore__ inline void Multiply(const LocalTensor<float>& to, const LocalTensor<float>& from, uint32_t count) {
    const uint8_t pitch = static_cast<uint8_t>(s_.columns / 8);
    PipeBarrier<PIPE_V>();
    for (uint32_t at = 0; at < s_.columns; at += 64) {
      Mul(to[at], from[at], column_.Get<float>(), Least(64, s_.columns - at), static_cast<uint8_t>(count),
          BinaryRepeatParams{1, 1, 0, pitch, pitch, 1});
    }
  }
  // column_ = what each of `count` rows keeps; stores the new log-sum-exps.
  __aicore__ inline void Weights(uint32_t row, uint32_t count) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> own = own_.Get<float>(), sink = sink_.Get<float>(), both = both_.Get<float>();
    LoadWide(line_in_, lse_[row], own, count);
    LoadWide(line_in_, sinks_[row % s_.heads], sink, count);
    PipeBarrier<PIPE_V>();
    Max(both, own, sink, n);
    PipeBarrier<PIPE_V>();
    Sub(own, own, both, n);
    Sub(sink, sink, both, n);
    PipeBarrier<PIPE_V>();
    Exp(own, own, n);
    Exp(sink, sink, n);
    LocalTensor<float> sum = line_out_.AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    Add(sum, own, sink, n);
    PipeBarrier<PIPE_V>();
    Div(own, own, sum, n);
    PipeBarrier<PIPE_V>();
    Brcb(column_.Get<float>(), own, static_cast<uint8_t>((count + 7) / 8), BrcbRepeatParams{1, 8});
    Ln(sum, sum, n);
    PipeBarrier<PIPE_V>();
    Add(sum, sum, both, n);
    Store(line_out_, sum, lse_[row], count);
  }

  TPipe pipe;
  InQueue in, line_in_;
  OutQueue out, line_out_;
  TBuf<> wide_, column_, own_, sink_, both_;
  GlobalTensor<T> output_;
  GlobalTensor<float> lse_, sinks_;
  SinkShape s_ = {};
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void attention_sinks(GM_ADDR output, GM_ADDR lse, GM_ADDR sinks, uint32_t type,
                                                      uint32_t rows, uint32_t columns, uint32_t heads,
                                                      uint32_t rows_at_once) {
  trireme_kernels::ByType<trireme_kernels::AttentionSinks>(
      type, output, lse, sinks, trireme_kernels::SinkShape{rows, columns, heads, rows_at_once});
}
