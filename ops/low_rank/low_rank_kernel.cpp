// Low-rank gemms, which are memory-bound: down to the rank, up from it, and the gradient of a low-rank
// matrix. Low-rank matrices are stored as [rank, columns]; matrices with `rank` columns are fp32.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

// low[t, r] = scale · <x[t], matrix[r]>
template <typename T>
class LoraShrink {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR matrix, GM_ADDR low, uint32_t rows, uint32_t columns, uint32_t rank,
                             uint32_t tile, float scale) {
    const GlobalTensor<T> source = GlobalOf<T>(x, static_cast<uint64_t>(rows) * columns);
    const GlobalTensor<T> factors = GlobalOf<T>(matrix, static_cast<uint64_t>(rank) * columns);
    const GlobalTensor<float> target = GlobalOf<float>(low, static_cast<uint64_t>(rows) * rank);
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 1, (rank + 7) / 8 * 32);
    for (TBuf<>* buffer : {&values, &products}) pipe.InitBuffer(*buffer, tile * sizeof(float));
    pipe.InitBuffer(sums, rank * 32);
    const Share share = MyShare(rows);
    for (uint32_t row = share.begin; row < share.end; ++row) {
      LocalTensor<float> value = values.Get<float>(), product = products.Get<float>(), sum = sums.Get<float>();
      Duplicate(sum, 0.0f, static_cast<int32_t>(rank * 8));
      for (uint32_t at = 0; at < columns; at += tile) {
        const uint32_t count = Least(tile, columns - at);
        LoadWide(in, source[static_cast<uint64_t>(row) * columns + at], value, count);
        for (uint32_t r = 0; r < rank; ++r) {
          LoadWide(in, factors[static_cast<uint64_t>(r) * columns + at], product, count);
          PipeBarrier<PIPE_V>();
          Mul(product, product, value, static_cast<int32_t>(count));
          PipeBarrier<PIPE_V>();
          ReduceSum(product, product, product, static_cast<int32_t>(count));
          PipeBarrier<PIPE_V>();
          Add(sum[r * 8], sum[r * 8], product, 1);  // each sum in its own 32 bytes
        }
      }
      LocalTensor<float> line = out.AllocTensor<float>();
      Wait<HardEvent::V_S>();
      for (uint32_t r = 0; r < rank; ++r) line.SetValue(r, sum.GetValue(r * 8) * scale);
      Wait<HardEvent::S_V>();
      Store(out, line, target[static_cast<uint64_t>(row) * rank], rank);
    }
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> values, products, sums;
};

// y[t] = base[t] + scale · Σ_r low[t, r] · matrix[r]
template <typename T>
class LoraExpand {
 public:
  __aicore__ inline void Run(GM_ADDR low, GM_ADDR matrix, GM_ADDR base, GM_ADDR y, uint32_t rows, uint32_t columns,
                             uint32_t rank, uint32_t tile, float scale, uint32_t adds) {
    const GlobalTensor<float> source = GlobalOf<float>(low, static_cast<uint64_t>(rows) * rank);
    const GlobalTensor<T> factors = GlobalOf<T>(matrix, static_cast<uint64_t>(rank) * columns);
    const GlobalTensor<T> before = GlobalOf<T>(base, static_cast<uint64_t>(rows) * columns);
    const GlobalTensor<T> target = GlobalOf<T>(y, static_cast<uint64_t>(rows) * columns);
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    for (TBuf<>* buffer : {&values, &sums}) pipe.InitBuffer(*buffer, tile * sizeof(float));
    const Share share = MyShare(rows);
    for (uint32_t row = share.begin; row < share.end; ++row) {
      for (uint32_t at = 0; at < columns; at += tile) {
        const uint32_t count = Least(tile, columns - at);
        const uint64_t place = static_cast<uint64_t>(row) * columns + at;
        LocalTensor<float> value = values.Get<float>(), sum = sums.Get<float>();
        if (adds != 0) {
          LoadWide(in, before[place], sum, count);
        } else {
          PipeBarrier<PIPE_V>();
          Duplicate(sum, 0.0f, static_cast<int32_t>(count));
        }
        for (uint32_t r = 0; r < rank; ++r) {
          LoadWide(in, factors[static_cast<uint64_t>(r) * columns + at], value, count);
          PipeBarrier<PIPE_V>();
          Axpy(sum, value, source.GetValue(static_cast<uint64_t>(row) * rank + r) * scale, static_cast<int32_t>(count));
        }
        LocalTensor<T> line = out.AllocTensor<T>();
        if constexpr (IsFloat<T>::value) {
          PipeBarrier<PIPE_V>();
          Muls(line, sum, 1.0f, static_cast<int32_t>(count));
        } else {
          Narrow(line, sum, count);
        }
        Store(out, line, target[place], count);
      }
    }
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> values, sums;
};

// gradient[r] += scale · Σ_t low[t, r] · x[t]; each block has its own columns.
template <typename T>
class LoraGradient {
 public:
  __aicore__ inline void Run(GM_ADDR low, GM_ADDR x, GM_ADDR gradient, uint32_t rows, uint32_t columns, uint32_t rank,
                             uint32_t tile, float scale) {
    const GlobalTensor<float> factors = GlobalOf<float>(low, static_cast<uint64_t>(rows) * rank);
    const GlobalTensor<T> source = GlobalOf<T>(x, static_cast<uint64_t>(rows) * columns);
    const GlobalTensor<float> target = GlobalOf<float>(gradient, static_cast<uint64_t>(rank) * columns);
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 1, rank * tile * sizeof(float));
    pipe.InitBuffer(values, tile * sizeof(float));
    const Share share = MyShare((columns + tile - 1) / tile);
    for (uint32_t i = share.begin; i < share.end; ++i) {
      const uint32_t at = i * tile, count = Least(tile, columns - at);
      LocalTensor<float> sums = out.AllocTensor<float>(), value = values.Get<float>();
      Duplicate(sums, 0.0f, static_cast<int32_t>(rank * tile));
      for (uint32_t row = 0; row < rows; ++row) {
        LoadWide(in, source[static_cast<uint64_t>(row) * columns + at], value, count);
        PipeBarrier<PIPE_V>();
        for (uint32_t r = 0; r < rank; ++r) {
          Axpy(sums[r * tile], value, factors.GetValue(static_cast<uint64_t>(row) * rank + r) * scale,
               static_cast<int32_t>(count));
        }
      }
      out.EnQue(sums);
      sums = out.DeQue<float>();
      AscendC::SetAtomicAdd<float>();
      for (uint32_t r = 0; r < rank; ++r)
        CopyOut(target[static_cast<uint64_t>(r) * columns + at], sums[r * tile], count);
      AscendC::SetAtomicNone();
      out.FreeTensor(sums);
    }
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> values;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void lora_shrink(GM_ADDR x, GM_ADDR matrix, GM_ADDR low, uint32_t type, uint32_t rows,
                                                  uint32_t columns, uint32_t rank, uint32_t tile, float scale) {
  trireme_kernels::ByType<trireme_kernels::LoraShrink>(type, x, matrix, low, rows, columns, rank, tile, scale);
}

extern "C" __global__ __aicore__ void lora_expand(GM_ADDR low, GM_ADDR matrix, GM_ADDR base, GM_ADDR y, uint32_t type,
                                                  uint32_t rows, uint32_t columns, uint32_t rank, uint32_t tile,
                                                  float scale, uint32_t adds) {
  trireme_kernels::ByType<trireme_kernels::LoraExpand>(type, low, matrix, base, y, rows, columns, rank, tile, scale,
                                                       adds);
}

extern "C" __global__ __aicore__ void lora_gradient(GM_ADDR low, GM_ADDR x, GM_ADDR gradient, uint32_t type,
                                                    uint32_t rows, uint32_t columns, uint32_t rank, uint32_t tile,
                                                    float scale) {
  trireme_kernels::ByType<trireme_kernels::LoraGradient>(type, low, x, gradient, rows, columns, rank, tile, scale);
}
