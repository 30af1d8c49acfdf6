// residual + dropout(x). Whether an element is kept follows from seed and place alone, so the gradient draws
// the same mask again instead of reading one.
#include "ops/ascendc/kernels/tile.h"

namespace trireme_kernels {
namespace {

// A mixing of 32 bits: multiplications and shifted exclusive-ors. Exclusive-or is or minus and.
__aicore__ inline void XorShifted(const LocalTensor<int32_t>& x, const LocalTensor<int32_t>& a,
                                  const LocalTensor<int32_t>& b, uint32_t shift, int32_t n) {
  ShiftRight(a.ReinterpretCast<uint32_t>(), x.ReinterpretCast<uint32_t>(), shift, n);
  Or(b.ReinterpretCast<uint16_t>(), x.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), 2 * n);
  And(a.ReinterpretCast<uint16_t>(), x.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), 2 * n);
  Sub(x, b, a, n);
}

template <typename T>
class DropoutAdd {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR residual, GM_ADDR y, uint32_t rows, uint32_t columns,
                             uint32_t tile, uint32_t seed, float probability, uint32_t adds) {
    const uint64_t size = static_cast<uint64_t>(rows) * columns;
    x_ = GlobalOf<T>(x, size), residual_ = GlobalOf<T>(residual, size), y_ = GlobalOf<T>(y, size);
    seed_ = seed, threshold_ = probability * 16777216.0f, scale_ = 1.0f / (1.0f - probability),
    adds_ = adds != 0;
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    for (TBuf<>* buffer : {&values, &hashes, &first, &second}) pipe.InitBuffer(*buffer, tile * sizeof(float));
    pipe.InitBuffer(bits, tile / 8);
    const uint64_t tiles = (size + tile - 1) / tile;
    const Share share = MyShare(static_cast<uint32_t>(tiles));
    for (uint64_t i = share.begin; i < share.end; ++i) {
      const uint64_t place = i * tile;
      Tile(place, size - place < tile ? static_cast<uint32_t>(size - place) : tile);
    }
  }

 private:
  __aicore__ inline void Tile(uint64_t place, uint32_t count) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> value = values.Get<float>();
    DrawMask(place, (count + 63) / 64 * 64);
    LoadWide(in, x_[place], value, count);
    Muls(value, value, scale_, n);
    Select(value, bits.Get<uint8_t>(), value, 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
    LocalTensor<T> y = out.AllocTensor<T>();
    if (adds_) {
      LoadWide(in, residual_[place], first.Get<float>(), count);
      Add(value, value, first.Get<float>(), n);
    }
    if constexpr (IsFloat<T>::value) {
      Muls(y, value, 1.0f, n);
    } else {
      Narrow(y, value, count);
    }
    Store(out, y, y_[place], count);
  }

  // A bit for each of `lanes` elements: set where the element is kept.
  __aicore__ inline void DrawMask(uint64_t place, uint32_t lanes) {
    const int32_t n = static_cast<int32_t>(lanes);
    LocalTensor<int32_t> hash = hashes.Get<int32_t>(), a = first.Get<int32_t>(), b = second.Get<int32_t>();
    CreateVecIndex(hash, static_cast<int32_t>(0), lanes);
    Adds(hash, hash, static_cast<int32_t>(static_cast<uint32_t>(place)), n);
    Muls(hash, hash, static_cast<int32_t>(0x9e3779b1u), n);
    Adds(hash, hash, static_cast<int32_t>(seed_ + static_cast<uint32_t>(place >> 32) * 0x85ebca6bu), n);
    XorShifted(hash, a, b, 16, n);
    Muls(hash, hash, static_cast<int32_t>(0x7feb352du), n);
    XorShifted(hash, a, b, 15, n);
    Muls(hash, hash, static_cast<int32_t>(0x846ca68bu), n);
    XorShifted(hash, a, b, 16, n);
    ShiftRight(hash.ReinterpretCast<uint32_t>(), hash.ReinterpretCast<uint32_t>(), static_cast<uint32_t>(8),
               n);
    Cast(a.ReinterpretCast<float>(), hash, RoundMode::CAST_NONE, lanes);
    CompareScalar(bits.Get<uint8_t>(), a.ReinterpretCast<float>(), threshold_, AscendC::CMPMODE::GE, lanes);
  }

  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> values, hashes, first, second, bits;
  GlobalTensor<T> x_, residual_, y_;
  uint32_t seed_;
  float threshold_, scale_;
  bool adds_;
};

}  // namespace
}  // namespace trireme_kernels

// Without `adds` the dropout alone, which is also its gradient.
extern "C" __global__ __aicore__ void dropout_add(GM_ADDR x, GM_ADDR residual, GM_ADDR y, uint32_t type,
                                                  uint32_t rows, uint32_t columns, uint32_t tile,
                                                  uint32_t seed, float probability, uint32_t adds) {
  trireme_kernels::ByType<trireme_kernels::DropoutAdd>(type, x, residual, y, rows, columns, tile, seed,
                                                       probability, adds);
}
