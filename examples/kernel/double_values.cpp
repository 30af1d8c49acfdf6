// y = 2 x, in tiles of 2048 numbers; each block computes its share of the tiles.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kTile = 2048;

class DoubleValues {
 public:
  __aicore__ inline DoubleValues(GM_ADDR x, GM_ADDR y, uint32_t count) {
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), count);
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), count);
    pipe_.InitBuffer(in_, 2, kTile * sizeof(float));
    pipe_.InitBuffer(out_, 2, kTile * sizeof(float));
  }

  __aicore__ inline void Run(uint32_t count) {
    for (uint32_t begin = GetBlockIdx() * kTile; begin < count; begin += GetBlockNum() * kTile) {
      Tile(begin, count - begin < kTile ? count - begin : kTile);
    }
  }

 private:
  __aicore__ inline void Tile(uint32_t begin, uint32_t count) {
    const uint32_t bytes = count * sizeof(float);
    LocalTensor<float> x = in_.AllocTensor<float>();
    DataCopyPad(x, x_[begin], {1, bytes, 0, 0, 0}, {false, 0, 0, 0.0f});
    in_.EnQue(x);
    x = in_.DeQue<float>();
    LocalTensor<float> y = out_.AllocTensor<float>();
    Muls(y, x, 2.0f, static_cast<int32_t>(count));
    in_.FreeTensor(x);
    out_.EnQue(y);
    y = out_.DeQue<float>();
    DataCopyPad(y_[begin], y, {1, bytes, 0, 0, 0});
    out_.FreeTensor(y);
  }

  TPipe pipe_;
  TQue<TPosition::VECIN, 1> in_;
  TQue<TPosition::VECOUT, 1> out_;
  GlobalTensor<float> x_, y_;
};

extern "C" __global__ __aicore__ void double_values(GM_ADDR x, GM_ADDR y, uint32_t count) {
  DoubleValues(x, y, count).Run(count);
}
