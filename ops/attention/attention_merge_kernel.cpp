// Ring attention: merges another block's partial result into the running sum. Each row has its log-sum-exp; a
// row that has attended to no key has -inf, or less than -1e30. Rows of the sum may be in runs: `run_rows`
// rows each, `run_stride` rows apart.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

constexpr uint32_t kRowsAtOnce = 64;
constexpr float kNothing = -1.0e30f;

// sum (fp32) = sum · w + part · v, with weights from both log-sum-exps; lse becomes that of both.
template <typename T>
class AttentionMerge {
 public:
  __aicore__ inline void Run(GM_ADDR sum, GM_ADDR lse, GM_ADDR part, GM_ADDR part_lse, uint32_t rows, uint32_t columns,
                             uint32_t tile, uint32_t run_rows, uint32_t run_stride) {
    const uint64_t spanned = static_cast<uint64_t>(rows / run_rows - 1) * run_stride + run_rows;
    sum_ = GlobalOf<float>(sum, spanned * columns), lse_ = GlobalOf<float>(lse, spanned);
    part_ = GlobalOf<T>(part, static_cast<uint64_t>(rows) * columns), part_lse_ = GlobalOf<float>(part_lse, rows);
    pipe.InitBuffer(in, 2, tile * sizeof(float));
    pipe.InitBuffer(out, 2, tile * sizeof(float));
    pipe.InitBuffer(merged_, 1, kRowsAtOnce * sizeof(float));
    pipe.InitBuffer(values_, tile * sizeof(float));
    for (TBuf<>* buffer : {&own_, &other_, &both_}) pipe.InitBuffer(*buffer, kRowsAtOnce * sizeof(float));
    const Share share = MyShare(rows);
    uint32_t count = 0;
    for (uint32_t row = share.begin; row < share.end; row += count) {
      count = Least(kRowsAtOnce, Least(share.end - row, run_rows - row % run_rows));
      const uint64_t sum_row = static_cast<uint64_t>(row / run_rows) * run_stride + row % run_rows;
      Weights(sum_row, row, count);
      Wait<HardEvent::V_S>();
      for (uint32_t i = 0; i < count; ++i) {
        const float own = own_.Get<float>().GetValue(i), other = other_.Get<float>().GetValue(i);
        Row((sum_row + i) * columns, static_cast<uint64_t>(row + i) * columns, columns, tile, own, other);
      }
      Wait<HardEvent::S_V>();
    }
  }

 private:
  // own_, other_ = the weights of `count` rows; stores the new log-sum-exps.
  __aicore__ inline void Weights(uint64_t sum_row, uint32_t row, uint32_t count) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> own = own_.Get<float>(), other = other_.Get<float>(), both = both_.Get<float>();
    LoadWide(in, lse_[sum_row], own, count);
    LoadWide(in, part_lse_[row], other, count);
    PipeBarrier<PIPE_V>();
    Max(both, own, other, n);
    PipeBarrier<PIPE_V>();
    Maxs(both, both, kNothing, n);
    PipeBarrier<PIPE_V>();
    Sub(own, own, both, n);
    Sub(other, other, both, n);
    PipeBarrier<PIPE_V>();
    Exp(own, own, n);
    Exp(other, other, n);
    LocalTensor<float> merged = merged_.AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    Add(merged, own, other, n);
    PipeBarrier<PIPE_V>();
    Maxs(merged, merged, 1.0e-37f, n);  // no key in either: both weights are 0
    PipeBarrier<PIPE_V>();
    Div(own, own, merged, n);
    Div(other, other, merged, n);
    PipeBarrier<PIPE_V>();
    Ln(merged, merged, n);
    PipeBarrier<PIPE_V>();
    Add(merged, merged, both, n);
    Store(merged_, merged, lse_[sum_row], count);
  }

  __aicore__ inline void Row(uint64_t place, uint64_t part_place, uint32_t columns, uint32_t tile, float own,
                             float other) {
    for (uint32_t at = 0; at < columns; at += tile) {
      const uint32_t count = Least(tile, columns - at);
      LocalTensor<float> before = Load(in, sum_[place + at], count), after = out.AllocTensor<float>();
      Muls(after, before, own, static_cast<int32_t>(count));
      in.FreeTensor(before);
      LocalTensor<T> loaded = Load(in, part_[part_place + at], count);
      const LocalTensor<float> x = Widen(loaded, values_.Get<float>(), count);
      PipeBarrier<PIPE_V>();
      Axpy(after, x, other, static_cast<int32_t>(count));
      in.FreeTensor(loaded);
      Store(out, after, sum_[place + at], count);
    }
  }

  TPipe pipe;
  InQueue in;
  OutQueue out, merged_;
  TBuf<> values_, own_, other_, both_;
  GlobalTensor<float> sum_, lse_, part_lse_;
  GlobalTensor<T> part_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void attention_merge(GM_ADDR sum, GM_ADDR lse, GM_ADDR part, GM_ADDR part_lse,
                                                      uint32_t type, uint32_t rows, uint32_t columns, uint32_t tile,
                                                      uint32_t run_rows, uint32_t run_stride) {
  trireme_kernels::ByType<trireme_kernels::AttentionMerge>(type, sum, lse, part, part_lse, rows, columns, tile,
                                                           run_rows, run_stride);
}
