// Moves and combines entire rows: the experts' permutation, its weighted inverse, and their gradients. Row
// indices are int32; a negative one means no row.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

// to[i] = from[index[i]] · weights[i], zeros if there is no row.
template <typename T>
class GatherRows {
 public:
  __aicore__ inline void Run(GM_ADDR from, GM_ADDR index, GM_ADDR weights, GM_ADDR to, uint32_t from_rows,
                             uint32_t rows, uint32_t columns, uint32_t tile, uint32_t weighted) {
    const GlobalTensor<T> source = GlobalOf<T>(from, static_cast<uint64_t>(from_rows) * columns);
    const GlobalTensor<T> target = GlobalOf<T>(to, static_cast<uint64_t>(rows) * columns);
    const GlobalTensor<int32_t> indices = GlobalOf<int32_t>(index, rows);
    const GlobalTensor<float> factors = GlobalOf<float>(weights, rows);
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    pipe.InitBuffer(wide, tile * sizeof(float));
    const Share share = MyShare(rows);
    for (uint32_t row = share.begin; row < share.end; ++row) {
      const int32_t place = indices.GetValue(row);
      const float factor = weighted != 0 ? factors.GetValue(row) : 1.0f;
      for (uint32_t at = 0; at < columns; at += tile) {
        const uint32_t count = Least(tile, columns - at);
        LocalTensor<T> moved = out.AllocTensor<T>();
        if (place < 0) {
          Duplicate(moved, T(0.0f), static_cast<int32_t>(count));
        } else {
          LocalTensor<T> loaded = Load(in, source[static_cast<uint64_t>(place) * columns + at], count);
          const LocalTensor<float> result = ResultOf(moved, wide.Get<float>());
          const LocalTensor<float> x = Widen(loaded, wide.Get<float>(), count);
          PipeBarrier<PIPE_V>();
          Muls(result, x, factor, static_cast<int32_t>(count));
          Narrow(moved, result, count);
          in.FreeTensor(loaded);
        }
        Store(out, moved, target[static_cast<uint64_t>(row) * columns + at], count);
      }
    }
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> wide;
};

// to[i] = Σ_k from[index[i, k]] · weights[i, k], in fp32, in order.
template <typename T>
class CombineRows {
 public:
  __aicore__ inline void Run(GM_ADDR from, GM_ADDR index, GM_ADDR weights, GM_ADDR to, uint32_t from_rows,
                             uint32_t rows, uint32_t terms, uint32_t columns, uint32_t tile, uint32_t weighted) {
    const GlobalTensor<T> source = GlobalOf<T>(from, static_cast<uint64_t>(from_rows) * columns);
    const GlobalTensor<T> target = GlobalOf<T>(to, static_cast<uint64_t>(rows) * columns);
    const GlobalTensor<int32_t> indices = GlobalOf<int32_t>(index, static_cast<uint64_t>(rows) * terms);
    const GlobalTensor<float> factors = GlobalOf<float>(weights, static_cast<uint64_t>(rows) * terms);
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    pipe.InitBuffer(wide, tile * sizeof(float));
    pipe.InitBuffer(sums, tile * sizeof(float));
    const Share share = MyShare(rows);
    for (uint32_t row = share.begin; row < share.end; ++row) {
      for (uint32_t at = 0; at < columns; at += tile) {
        const uint32_t count = Least(tile, columns - at);
        LocalTensor<float> sum = sums.Get<float>();
        PipeBarrier<PIPE_V>();
        Duplicate(sum, 0.0f, static_cast<int32_t>(count));
        for (uint32_t k = 0; k < terms; ++k) {
          const uint64_t term = static_cast<uint64_t>(row) * terms + k;
          const int32_t place = indices.GetValue(term);
          if (place < 0) continue;
          LocalTensor<T> loaded = Load(in, source[static_cast<uint64_t>(place) * columns + at], count);
          const LocalTensor<float> x = Widen(loaded, wide.Get<float>(), count);
          PipeBarrier<PIPE_V>();
          Axpy(sum, x, weighted != 0 ? factors.GetValue(term) : 1.0f, static_cast<int32_t>(count));
          in.FreeTensor(loaded);
        }
        LocalTensor<T> combined = out.AllocTensor<T>();
        if constexpr (IsFloat<T>::value) {
          PipeBarrier<PIPE_V>();
          Muls(combined, sum, 1.0f, static_cast<int32_t>(count));
        } else {
          Narrow(combined, sum, count);
        }
        Store(out, combined, target[static_cast<uint64_t>(row) * columns + at], count);
      }
    }
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> wide, sums;
};

// dots[i, k] = <a[i], b[index[i, k]]>, 0 if there is no row: the gradient of the combination's weights.
template <typename T>
class DotRows {
 public:
  __aicore__ inline void Run(GM_ADDR a, GM_ADDR b, GM_ADDR index, GM_ADDR dots, uint32_t b_rows, uint32_t rows,
                             uint32_t terms, uint32_t columns, uint32_t tile) {
    const GlobalTensor<T> left = GlobalOf<T>(a, static_cast<uint64_t>(rows) * columns);
    const GlobalTensor<T> right = GlobalOf<T>(b, static_cast<uint64_t>(b_rows) * columns);
    const GlobalTensor<int32_t> indices = GlobalOf<int32_t>(index, static_cast<uint64_t>(rows) * terms);
    const GlobalTensor<float> results = GlobalOf<float>(dots, static_cast<uint64_t>(rows) * terms);
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, 32);
    pipe.InitBuffer(wide, tile * sizeof(float));
    pipe.InitBuffer(products, tile * sizeof(float));
    const Share share = MyShare(rows);
    for (uint32_t row = share.begin; row < share.end; ++row) {
      for (uint32_t k = 0; k < terms; ++k) {
        const uint64_t term = static_cast<uint64_t>(row) * terms + k;
        const int32_t place = indices.GetValue(term);
        LocalTensor<float> dot = out.AllocTensor<float>(), x = wide.Get<float>(), y = products.Get<float>();
        Duplicate(dot, 0.0f, 8);
        for (uint32_t at = 0; at < columns && place >= 0; at += tile) {
          const uint32_t count = Least(tile, columns - at);
          LoadWide(in, left[static_cast<uint64_t>(row) * columns + at], x, count);
          LoadWide(in, right[static_cast<uint64_t>(place) * columns + at], y, count);
          PipeBarrier<PIPE_V>();
          Mul(x, x, y, static_cast<int32_t>(count));
          PipeBarrier<PIPE_V>();
          ReduceSum(x, x, x, static_cast<int32_t>(count));
          PipeBarrier<PIPE_V>();
          Add(dot, dot, x, 1);
        }
        Store(out, dot, results[term], 1);
      }
    }
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> wide, products;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void gather_rows(GM_ADDR from, GM_ADDR index, GM_ADDR weights, GM_ADDR to,
                                                  uint32_t type, uint32_t from_rows, uint32_t rows, uint32_t columns,
                                                  uint32_t tile, uint32_t weighted) {
  trireme_kernels::ByType<trireme_kernels::GatherRows>(type, from, index, weights, to, from_rows, rows, columns, tile,
                                                       weighted);
}

extern "C" __global__ __aicore__ void combine_rows(GM_ADDR from, GM_ADDR index, GM_ADDR weights, GM_ADDR to,
                                                   uint32_t type, uint32_t from_rows, uint32_t rows, uint32_t terms,
                                                   uint32_t columns, uint32_t tile, uint32_t weighted) {
  trireme_kernels::ByType<trireme_kernels::CombineRows>(type, from, index, weights, to, from_rows, rows, terms, columns,
                                                        tile, weighted);
}

extern "C" __global__ __aicore__ void dot_rows(GM_ADDR a, GM_ADDR b, GM_ADDR index, GM_ADDR dots, uint32_t type,
                                               uint32_t b_rows, uint32_t rows, uint32_t terms, uint32_t columns,
                                               uint32_t tile) {
  trireme_kernels::ByType<trireme_kernels::DotRows>(type, a, b, index, dots, b_rows, rows, terms, columns, tile);
}
