// RMSNorm of rows, of x or of x + branch, and its gradient. Rows longer than a tile are read twice.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

struct RmsNormBuffers {
  TPipe pipe;
  InQueue in;
  OutQueue out, statistics;
  TBuf<> values, products, weights, total;
};

// total[0] = the scale of a row, from the sum of its squares in total[0]; computes on 8 elements.
__aicore__ inline void ScaleFromSquares(const LocalTensor<float>& total, uint32_t columns, float eps) {
  PipeBarrier<PIPE_V>();
  Muls(total, total, 1.0f / static_cast<float>(columns), 8);
  PipeBarrier<PIPE_V>();
  Adds(total, total, eps, 8);
  PipeBarrier<PIPE_V>();
  Sqrt(total, total, 8);
  Duplicate(total[8], 1.0f, 8);
  PipeBarrier<PIPE_V>();
  Div(total, total[8], total, 8);
}

template <typename T>
class RmsNormForward : RmsNormBuffers {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR branch, GM_ADDR weight, GM_ADDR sum, GM_ADDR y, GM_ADDR scale,
                             uint32_t rows, uint32_t columns, uint32_t tile, float eps, uint32_t adds) {
    const uint64_t size = static_cast<uint64_t>(rows) * columns;
    x_ = GlobalOf<T>(x, size), branch_ = GlobalOf<T>(branch, size), sum_ = GlobalOf<T>(sum, size);
    y_ = GlobalOf<T>(y, size), weight_ = GlobalOf<T>(weight, columns), scale_ = GlobalOf<float>(scale, rows);
    columns_ = columns, tile_ = tile, eps_ = eps, adds_ = adds != 0;
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    pipe.InitBuffer(statistics, 1, 64);
    pipe.InitBuffer(values, tile * sizeof(float));
    pipe.InitBuffer(products, tile * sizeof(float));
    pipe.InitBuffer(weights, tile * sizeof(float));
    pipe.InitBuffer(total, 64);
    const Share share = MyShare(rows);
    if (share.begin == share.end) return;
    if (columns <= tile) LoadWide(in, weight_, weights.Get<float>(), columns);
    for (uint32_t row = share.begin; row < share.end; ++row) Row(row);
  }

 private:
  __aicore__ inline void Row(uint32_t row) {
    const uint64_t first = static_cast<uint64_t>(row) * columns_;
    LocalTensor<float> sums = total.Get<float>();
    Duplicate(sums, 0.0f, 8);
    for (uint32_t at = 0; at < columns_; at += tile_) AddSquares(first + at, Least(tile_, columns_ - at), sums);
    ScaleFromSquares(sums, columns_, eps_);
    LocalTensor<float> kept = statistics.AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    Muls(kept, sums, 1.0f, 8);
    Store(statistics, kept, scale_[row], 1);
    const float scale = Read(sums, 0);
    for (uint32_t at = 0; at < columns_; at += tile_) Normalise(first + at, at, Least(tile_, columns_ - at), scale);
  }

  // Leaves the values in `values`.
  __aicore__ inline void AddSquares(uint64_t place, uint32_t count, const LocalTensor<float>& sums) {
    LocalTensor<float> x = values.Get<float>(), product = products.Get<float>();
    LoadWide(in, x_[place], x, count);
    if (adds_) {
      LoadWide(in, branch_[place], product, count);
      LocalTensor<T> added = out.AllocTensor<T>();
      LocalTensor<float> result = ResultOf(added, x);
      PipeBarrier<PIPE_V>();
      Add(result, x, product, static_cast<int32_t>(count));
      Narrow(added, result, count);
      WidenInto(x, added, count);
      Store(out, added, sum_[place], count);
    }
    PipeBarrier<PIPE_V>();
    Mul(product, x, x, static_cast<int32_t>(count));
    PipeBarrier<PIPE_V>();
    ReduceSum(product, product, product, static_cast<int32_t>(count));
    PipeBarrier<PIPE_V>();
    Add(sums, sums, product, 1);
  }

  __aicore__ inline void Normalise(uint64_t place, uint32_t at, uint32_t count, float scale) {
    LocalTensor<float> x = values.Get<float>(), weight = weights.Get<float>();
    if (columns_ > tile_) {
      if (adds_) Wait<HardEvent::MTE3_MTE2>();
      LoadWide(in, adds_ ? sum_[place] : x_[place], x, count);
      LoadWide(in, weight_[at], weight, count);
    }
    LocalTensor<T> y = out.AllocTensor<T>();
    LocalTensor<float> result = ResultOf(y, x);
    PipeBarrier<PIPE_V>();
    Muls(x, x, scale, static_cast<int32_t>(count));
    RoundThrough(x, y, count);
    PipeBarrier<PIPE_V>();
    Mul(result, x, weight, static_cast<int32_t>(count));
    Narrow(y, result, count);
    Store(out, y, y_[place], count);
  }

  GlobalTensor<T> x_, branch_, sum_, y_, weight_;
  GlobalTensor<float> scale_;
  uint32_t columns_, tile_;
  float eps_;
  bool adds_;
};

template <typename T>
class RmsNormBackward : RmsNormBuffers {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR y_gradient, GM_ADDR carried,
                             GM_ADDR x_gradient, GM_ADDR weight_sums, uint32_t rows, uint32_t columns, uint32_t tile,
                             uint32_t carries) {
    const uint64_t size = static_cast<uint64_t>(rows) * columns;
    x_ = GlobalOf<T>(x, size), y_gradient_ = GlobalOf<T>(y_gradient, size), carried_ = GlobalOf<T>(carried, size);
    x_gradient_ = GlobalOf<T>(x_gradient, size), weight_ = GlobalOf<T>(weight, columns),
    scale_ = GlobalOf<float>(scale, rows);
    weight_sums_ = GlobalOf<float>(weight_sums, static_cast<uint64_t>(AscendC::GetBlockNum()) * columns);
    columns_ = columns, tile_ = tile, carries_ = carries != 0;
    pipe.InitBuffer(in, 2, tile * sizeof(float));
    pipe.InitBuffer(out, 1, tile * sizeof(float));
    pipe.InitBuffer(statistics, 1, tile * sizeof(float));
    pipe.InitBuffer(values, tile * sizeof(float));
    pipe.InitBuffer(products, tile * sizeof(float));
    pipe.InitBuffer(gradients_, tile * sizeof(float));
    pipe.InitBuffer(weights, tile * sizeof(float));
    pipe.InitBuffer(total, 64);
    const Share share = MyShare(rows);
    if (columns <= tile) {
      LoadWide(in, weight_, weights.Get<float>(), columns);
      weight_sum_ = statistics.AllocTensor<float>();
      Duplicate(weight_sum_, 0.0f, static_cast<int32_t>(columns));
    }
    for (uint32_t row = share.begin; row < share.end; ++row) Row(row);
    if (columns <= tile) Store(statistics, weight_sum_, MySums(), columns);
  }

 private:
  __aicore__ inline GlobalTensor<float> MySums() {
    return weight_sums_[static_cast<uint64_t>(AscendC::GetBlockIdx()) * columns_];
  }

  __aicore__ inline void Row(uint32_t row) {
    const uint64_t first = static_cast<uint64_t>(row) * columns_;
    LocalTensor<float> sums = total.Get<float>();
    LocalTensor<float> loaded = Load(in, scale_[row], 1);
    const float scale = Read(loaded, 0);
    in.FreeTensor(loaded);
    Duplicate(sums, 0.0f, 8);
    for (uint32_t at = 0; at < columns_; at += tile_) {
      LoadTile(first + at, at, Least(tile_, columns_ - at), scale);
      AddShared(at, Least(tile_, columns_ - at), sums);
    }
    const float shared = Read(sums, 0) / static_cast<float>(columns_);
    for (uint32_t at = 0; at < columns_; at += tile_) {
      if (columns_ > tile_) LoadTile(first + at, at, Least(tile_, columns_ - at), scale);
      Finish(first + at, Least(tile_, columns_ - at), scale, shared);
    }
  }

  // values = the normalised x, gradients = the gradient of y, weights = the weight.
  __aicore__ inline void LoadTile(uint64_t place, uint32_t at, uint32_t count, float scale) {
    LocalTensor<float> x = values.Get<float>(), gradient = gradients_.Get<float>(), weight = weights.Get<float>();
    LoadWide(in, x_[place], x, count);
    LoadWide(in, y_gradient_[place], gradient, count);
    if (columns_ > tile_) LoadWide(in, weight_[at], weight, count);
    PipeBarrier<PIPE_V>();
    Muls(x, x, scale, static_cast<int32_t>(count));
  }

  // Adds this row's product to the weight's gradient, and the row's product with the weight to sums[0].
  __aicore__ inline void AddShared(uint32_t at, uint32_t count, const LocalTensor<float>& sums) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> product = products.Get<float>(), weight = weights.Get<float>();
    PipeBarrier<PIPE_V>();
    Mul(product, gradients_.Get<float>(), values.Get<float>(), n);
    if (columns_ <= tile_) {
      PipeBarrier<PIPE_V>();
      Add(weight_sum_, weight_sum_, product, n);
    } else {
      LocalTensor<float> part = statistics.AllocTensor<float>();
      PipeBarrier<PIPE_V>();
      Muls(part, product, 1.0f, n);
      AscendC::SetAtomicAdd<float>();
      Store(statistics, part, MySums()[at], count);
      AscendC::SetAtomicNone();
    }
    PipeBarrier<PIPE_V>();
    Mul(product, product, weight, n);
    PipeBarrier<PIPE_V>();
    ReduceSum(product, product, product, n);
    PipeBarrier<PIPE_V>();
    Add(sums, sums, product, 1);
  }

  // (gradient · weight - normalised · shared) · scale, plus the carried gradient.
  __aicore__ inline void Finish(uint64_t place, uint32_t count, float scale, float shared) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> x = values.Get<float>(), gradient = gradients_.Get<float>();
    LocalTensor<T> x_gradient = out.AllocTensor<T>();
    LocalTensor<float> result = ResultOf(x_gradient, gradient);
    Mul(gradient, gradient, weights.Get<float>(), n);
    PipeBarrier<PIPE_V>();
    Axpy(gradient, x, -shared, n);
    PipeBarrier<PIPE_V>();
    Muls(result, gradient, scale, n);
    if (carries_) {
      LoadWide(in, carried_[place], products.Get<float>(), count);
      PipeBarrier<PIPE_V>();
      Add(result, result, products.Get<float>(), n);
    }
    Narrow(x_gradient, result, count);
    Store(out, x_gradient, x_gradient_[place], count);
  }

  TBuf<> gradients_;
  GlobalTensor<T> x_, y_gradient_, carried_, x_gradient_, weight_;
  GlobalTensor<float> scale_, weight_sums_;
  LocalTensor<float> weight_sum_;
  uint32_t columns_, tile_;
  bool carries_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void rms_norm_forward(GM_ADDR x, GM_ADDR branch, GM_ADDR weight, GM_ADDR sum,
                                                       GM_ADDR y, GM_ADDR scale, uint32_t type, uint32_t rows,
                                                       uint32_t columns, uint32_t tile, float eps, uint32_t adds) {
  trireme_kernels::ByType<trireme_kernels::RmsNormForward>(type, x, branch, weight, sum, y, scale, rows, columns, tile,
                                                           eps, adds);
}

extern "C" __global__ __aicore__ void rms_norm_backward(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR y_gradient,
                                                        GM_ADDR carried, GM_ADDR x_gradient, GM_ADDR weight_sums,
                                                        uint32_t type, uint32_t rows, uint32_t columns, uint32_t tile,
                                                        uint32_t carries) {
  trireme_kernels::ByType<trireme_kernels::RmsNormBackward>(type, x, weight, scale, y_gradient, carried, x_gradient,
                                                            weight_sums, rows, columns, tile, carries);
}
