// Rows of logits of one vocabulary shard: the statistics that cross-entropy needs, and the gradient in place.
// Only the first `columns` of a row of `stride` are valid.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

constexpr uint32_t kLargest = 0, kSum = 8, kPicked = 16,
                   kScratch = 24;  // offsets in the statistics, 32 bytes each

template <typename T>
class LogitRows {
 protected:
  __aicore__ inline void Init(GM_ADDR logits, GM_ADDR labels, uint32_t rows, uint32_t columns, uint32_t stride,
                              uint32_t tile, uint32_t first_token) {
    logits_ = GlobalOf<T>(logits, static_cast<uint64_t>(rows) * stride);
    labels_ = GlobalOf<int64_t>(labels, rows);
    columns_ = columns, stride_ = stride, tile_ = tile, first_token_ = first_token;
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    pipe.InitBuffer(wide, tile * sizeof(float));
    pipe.InitBuffer(statistics, 1, 128);
  }
  // The column of the row's label; `columns_` if another shard holds it.
  __aicore__ inline uint32_t LabelColumn(uint32_t row) {
    const int64_t column = labels_.GetValue(row) - static_cast<int64_t>(first_token_);
    return column >= 0 && column < static_cast<int64_t>(columns_) ? static_cast<uint32_t>(column) : columns_;
  }

  TPipe pipe;
  InQueue in;
  OutQueue out, statistics;
  TBuf<> wide;
  GlobalTensor<T> logits_;
  GlobalTensor<int64_t> labels_;
  uint32_t columns_, stride_, tile_, first_token_;
};

template <typename T>
class LogitStatistics : LogitRows<T> {
 public:
  __aicore__ inline void Run(GM_ADDR logits, GM_ADDR labels, GM_ADDR largest, GM_ADDR sum, GM_ADDR picked,
                             uint32_t rows, uint32_t columns, uint32_t stride, uint32_t tile, uint32_t first_token) {
    this->Init(logits, labels, rows, columns, stride, tile, first_token);
    largest_ = GlobalOf<float>(largest, rows), sum_ = GlobalOf<float>(sum, rows),
    picked_ = GlobalOf<float>(picked, rows);
    this->pipe.InitBuffer(exponentials_, tile * sizeof(float));
    const Share share = MyShare(rows);
    for (uint32_t row = share.begin; row < share.end; ++row) Row(row);
  }

 private:
  __aicore__ inline void Row(uint32_t row) {
    const uint64_t first = static_cast<uint64_t>(row) * this->stride_;
    LocalTensor<float> kept = this->statistics.template AllocTensor<float>();
    Duplicate(kept, 0.0f, 32);
    constexpr float kLowest = -3.4028235e38f;  // the maximum of no columns: finite, so that no difference is a NaN
    PipeBarrier<PIPE_V>();
    Duplicate(kept, kLowest, 8);
    for (uint32_t at = 0; at < this->columns_; at += this->tile_) {
      AddTile(first + at, Least(this->tile_, this->columns_ - at), kept);
    }
    const uint32_t label = this->LabelColumn(row);
    if (label < this->columns_) LoadWide(this->in, this->logits_[first + label], kept[kPicked], 1);
    this->statistics.EnQue(kept);
    kept = this->statistics.template DeQue<float>();
    CopyOut(largest_[row], kept[kLargest], 1);
    CopyOut(sum_[row], kept[kSum], 1);
    CopyOut(picked_[row], kept[kPicked], 1);
    this->statistics.FreeTensor(kept);
  }

  // sum = sum · e^(largest - new) + Σ e^(logit - new), where new is the larger of both maxima.
  __aicore__ inline void AddTile(uint64_t place, uint32_t count, const LocalTensor<float>& kept) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> x = this->wide.template Get<float>(), exponential = exponentials_.Get<float>();
    LoadWide(this->in, this->logits_[place], x, count);
    PipeBarrier<PIPE_V>();
    ReduceMax(exponential, x, exponential, n, false);
    PipeBarrier<PIPE_V>();
    Max(kept[kScratch], exponential, kept[kLargest], 1);
    PipeBarrier<PIPE_V>();
    Sub(kept[kLargest], kept[kLargest], kept[kScratch], 1);
    PipeBarrier<PIPE_V>();
    Exp(kept[kLargest], kept[kLargest], 1);
    PipeBarrier<PIPE_V>();
    Mul(kept[kSum], kept[kSum], kept[kLargest], 1);
    const float largest = Read(kept, kScratch);
    Adds(x, x, -largest, n);
    PipeBarrier<PIPE_V>();
    Exp(x, x, n);
    PipeBarrier<PIPE_V>();
    ReduceSum(exponential, x, exponential, n);
    PipeBarrier<PIPE_V>();
    Add(kept[kSum], kept[kSum], exponential, 1);
    Muls(kept[kLargest], kept[kScratch], 1.0f, 1);
  }

  TBuf<> exponentials_;
  GlobalTensor<float> largest_, sum_, picked_;
};

template <typename T>
class LogitGradient : LogitRows<T> {
 public:
  __aicore__ inline void Run(GM_ADDR logits, GM_ADDR labels, GM_ADDR log_sum_exp, uint32_t rows, uint32_t columns,
                             uint32_t stride, uint32_t tile, uint32_t first_token, float scale) {
    this->Init(logits, labels, rows, columns, stride, tile, first_token);
    log_sum_exp_ = GlobalOf<float>(log_sum_exp, rows);
    scale_ = scale;
    const Share share = MyShare(rows);
    for (uint32_t row = share.begin; row < share.end; ++row) Row(row);
  }

 private:
  __aicore__ inline void Row(uint32_t row) {
    const uint64_t first = static_cast<uint64_t>(row) * this->stride_;
    LocalTensor<float> loaded = Load(this->in, log_sum_exp_[row], 1);
    const float shift = Read(loaded, 0);
    this->in.FreeTensor(loaded);
    const uint32_t label = this->LabelColumn(row);
    LocalTensor<T> picked = this->statistics.template AllocTensor<T>();
    if (label < this->columns_) {  // before the row is overwritten
      LocalTensor<float> x = this->wide.template Get<float>();
      LoadWide(this->in, this->logits_[first + label], x, 1);
      PipeBarrier<PIPE_V>();
      Adds(x, x, -shift, 1);
      PipeBarrier<PIPE_V>();
      Exp(x, x, 1);
      PipeBarrier<PIPE_V>();
      Adds(x, x, -1.0f, 1);
      LocalTensor<float> result = ResultOf(picked, x);
      PipeBarrier<PIPE_V>();
      Muls(result, x, scale_, 1);
      Narrow(picked, result, 1);
    }
    for (uint32_t at = 0; at < this->columns_; at += this->tile_) {
      Tile(first + at, Least(this->tile_, this->columns_ - at), shift);
    }
    for (uint32_t at = this->columns_; at < this->stride_; at += this->tile_) {
      const uint32_t count = Least(this->tile_, this->stride_ - at);
      LocalTensor<T> zeros = this->out.template AllocTensor<T>();
      Duplicate(zeros, T(0.0f), static_cast<int32_t>(count));
      Store(this->out, zeros, this->logits_[first + at], count);
    }
    if (label < this->columns_) {
      Store(this->statistics, picked, this->logits_[first + label], 1);  // after the row: one pipe, in order
    } else {
      this->statistics.FreeTensor(picked);
    }
  }

  __aicore__ inline void Tile(uint64_t place, uint32_t count, float shift) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> x = this->wide.template Get<float>();
    LoadWide(this->in, this->logits_[place], x, count);
    PipeBarrier<PIPE_V>();
    Adds(x, x, -shift, n);
    PipeBarrier<PIPE_V>();
    Exp(x, x, n);
    LocalTensor<T> gradient = this->out.template AllocTensor<T>();
    LocalTensor<float> result = ResultOf(gradient, x);
    PipeBarrier<PIPE_V>();
    Muls(result, x, scale_, n);
    Narrow(gradient, result, count);
    Store(this->out, gradient, this->logits_[place], count);
  }

  GlobalTensor<float> log_sum_exp_;
  float scale_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void logit_statistics(GM_ADDR logits, GM_ADDR labels, GM_ADDR largest, GM_ADDR sum,
                                                       GM_ADDR picked, uint32_t type, uint32_t rows, uint32_t columns,
                                                       uint32_t stride, uint32_t tile, uint32_t first_token) {
  trireme_kernels::ByType<trireme_kernels::LogitStatistics>(type, logits, labels, largest, sum, picked, rows, columns,
                                                            stride, tile, first_token);
}

extern "C" __global__ __aicore__ void logit_gradient(GM_ADDR logits, GM_ADDR labels, GM_ADDR log_sum_exp, uint32_t type,
                                                     uint32_t rows, uint32_t columns, uint32_t stride, uint32_t tile,
                                                     uint32_t first_token, float scale) {
  trireme_kernels::ByType<trireme_kernels::LogitGradient>(type, logits, labels, log_sum_exp, rows, columns, stride,
                                                          tile, first_token, scale);
}
