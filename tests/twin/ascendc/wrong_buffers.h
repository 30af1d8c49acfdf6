// What the kernels of wrong_kernels.cpp and wrong_block_kernels.cpp share: one block's queues, scratch memory
// and global tensors.
#pragma once

#include "kernel_operator.h"

using namespace AscendC;

namespace {

struct Buffers {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<> scratch;
  GlobalTensor<float> source, target;
  LocalTensor<float> ready;

  __aicore__ inline Buffers(GM_ADDR x, GM_ADDR y, uint32_t n) {
    pipe.InitBuffer(in, 2, 256);
    pipe.InitBuffer(out, 1, 256);
    pipe.InitBuffer(scratch, 256);
    source.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), n);
    target.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), n);
  }
  __aicore__ inline LocalTensor<float> Loaded() { return Loaded(source); }
  __aicore__ inline LocalTensor<float> Loaded(const GlobalTensor<float>& from) {
    LocalTensor<float> tensor = in.AllocTensor<float>();
    DataCopy(tensor, from, 64);
    in.EnQue(tensor);
    return in.DeQue<float>();
  }
  // 64 times the value, ready to be copied out and then freed.
  __aicore__ inline LocalTensor<float>& Ready(float value) {
    ready = out.AllocTensor<float>();
    Duplicate(ready, value, 64);
    out.EnQue(ready);
    ready = out.DeQue<float>();
    return ready;
  }
  __aicore__ inline GlobalTensor<int32_t> Flags(GM_ADDR x, uint32_t n) {
    GlobalTensor<int32_t> flags;
    flags.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(x), n);
    return flags;
  }
};

}  // namespace
