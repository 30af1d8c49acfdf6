// residual + dropout(x). Whether an element is kept depends only on its row's key and its column
// (ops/dropout_add/dropout_rule.h), so the gradient regenerates the mask instead of reading one.
#include "ops/ascendc/tile.h"
#include "ops/dropout_add/dropout_rule.h"

namespace trireme_kernels {
namespace {

// x ^= x >> shift. Exclusive-or is `or` minus `and`.
__aicore__ inline void Mix(const LocalTensor<int32_t>& x, const LocalTensor<int32_t>& a, const LocalTensor<int32_t>& b,
                           uint32_t shift, int32_t n) {
  PipeBarrier<PIPE_V>();
  ShiftRight(a.ReinterpretCast<uint32_t>(), x.ReinterpretCast<uint32_t>(), shift, n);
  PipeBarrier<PIPE_V>();
  Or(b.ReinterpretCast<uint16_t>(), x.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), 2 * n);
  PipeBarrier<PIPE_V>();
  And(a.ReinterpretCast<uint16_t>(), x.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), 2 * n);
  PipeBarrier<PIPE_V>();
  Sub(x, b, a, n);
}

struct DropoutNumbers {
  uint32_t rows, columns, tile, first_column;
  float rate;
  uint32_t adds;
};

template <typename T>
class DropoutAdd {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR residual, GM_ADDR keys, GM_ADDR y, DropoutNumbers numbers) {
    n_ = numbers;
    const uint64_t size = static_cast<uint64_t>(n_.rows) * n_.columns;
    x_ = GlobalOf<T>(x, size), residual_ = GlobalOf<T>(residual, size), y_ = GlobalOf<T>(y, size);
    keys_ = GlobalOf<uint32_t>(keys, static_cast<uint64_t>(n_.rows) * 2);
    pipe.InitBuffer(in, 2, n_.tile * sizeof(T));
    pipe.InitBuffer(out, 2, n_.tile * sizeof(T));
    for (TBuf<>* buffer : {&values, &hashes, &first, &second, &steps})
      pipe.InitBuffer(*buffer, n_.tile * sizeof(float));
    pipe.InitBuffer(bits, n_.tile / 8);
    LocalTensor<int32_t> step = steps.Get<int32_t>();
    CreateVecIndex(step, static_cast<int32_t>(0), n_.tile);
    PipeBarrier<PIPE_V>();
    Muls(step, step, static_cast<int32_t>(trireme::kColumnStep), static_cast<int32_t>(n_.tile));
    const Share share = MyShare(n_.rows);
    for (uint32_t row = share.begin; row < share.end; ++row) {
      const uint32_t low = keys_.GetValue(static_cast<uint64_t>(row) * 2),
                     high = keys_.GetValue(static_cast<uint64_t>(row) * 2 + 1);
      for (uint32_t at = 0; at < n_.columns; at += n_.tile) {
        const uint32_t count = Least(n_.tile, n_.columns - at);
        DrawMask((n_.first_column + at) * trireme::kColumnStep + low, high, (count + 63) / 64 * 64);
        Tile(static_cast<uint64_t>(row) * n_.columns + at, count);
      }
    }
  }

 private:
  __aicore__ inline void Tile(uint64_t place, uint32_t count) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> value = values.Get<float>();
    LoadWide(in, x_[place], value, count);
    PipeBarrier<PIPE_V>();
    Muls(value, value, 1.0f / (1.0f - n_.rate), n);
    PipeBarrier<PIPE_V>();
    Select(value, bits.Get<uint8_t>(), value, 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
    LocalTensor<T> y = out.AllocTensor<T>();
    if (n_.adds != 0) {
      LoadWide(in, residual_[place], first.Get<float>(), count);
      PipeBarrier<PIPE_V>();
      Add(value, value, first.Get<float>(), n);
    }
    if constexpr (IsFloat<T>::value) {
      PipeBarrier<PIPE_V>();
      Muls(y, value, 1.0f, n);
    } else {
      Narrow(y, value, count);
    }
    Store(out, y, y_[place], count);
  }

  // One bit for each of `lanes` elements, set if the element is kept. begin: the rule's start value at the
  // first of them.
  __aicore__ inline void DrawMask(uint32_t begin, uint32_t high, uint32_t lanes) {
    const int32_t n = static_cast<int32_t>(lanes);
    LocalTensor<int32_t> hash = hashes.Get<int32_t>(), a = first.Get<int32_t>(), b = second.Get<int32_t>();
    PipeBarrier<PIPE_V>();
    Adds(hash, steps.Get<int32_t>(), static_cast<int32_t>(begin), n);
    Mix(hash, a, b, trireme::kFirstShift, n);
    PipeBarrier<PIPE_V>();
    Muls(hash, hash, static_cast<int32_t>(trireme::kFirstFactor), n);
    PipeBarrier<PIPE_V>();
    Adds(hash, hash, static_cast<int32_t>(high), n);
    Mix(hash, a, b, trireme::kSecondShift, n);
    PipeBarrier<PIPE_V>();
    Muls(hash, hash, static_cast<int32_t>(trireme::kSecondFactor), n);
    Mix(hash, a, b, trireme::kThirdShift, n);
    PipeBarrier<PIPE_V>();
    ShiftRight(hash.ReinterpretCast<uint32_t>(), hash.ReinterpretCast<uint32_t>(), trireme::kUnusedBits, n);
    PipeBarrier<PIPE_V>();
    Cast(a.ReinterpretCast<float>(), hash, RoundMode::CAST_NONE, lanes);
    PipeBarrier<PIPE_V>();
    CompareScalar(bits.Get<uint8_t>(), a.ReinterpretCast<float>(), n_.rate * trireme::kDraws, AscendC::CMPMODE::GE,
                  lanes);
  }

  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> values, hashes, first, second, steps, bits;
  GlobalTensor<T> x_, residual_, y_;
  GlobalTensor<uint32_t> keys_;
  DropoutNumbers n_;
};

}  // namespace
}  // namespace trireme_kernels

// Without `adds`: dropout alone, which is also its gradient.
extern "C" __global__ __aicore__ void dropout_add(GM_ADDR x, GM_ADDR residual, GM_ADDR keys, GM_ADDR y, uint32_t type,
                                                  uint32_t rows, uint32_t columns, uint32_t tile, uint32_t first_column,
                                                  float rate, uint32_t adds) {
  trireme_kernels::ByType<trireme_kernels::DropoutAdd>(
      type, x, residual, keys, y, trireme_kernels::DropoutNumbers{rows, columns, tile, first_column, rate, adds});
}
