// Kernels in the style of third-party code: names qualified or not, bound queues, old flags, structs by
// value, tiling data in global memory, a launch by <<<…>>> that only a device compiler sees. They compile and
// run unchanged.
#include "kernel_operator.h"
#include "tests/twin/ascendc/sample_tiling.h"

constexpr int32_t BUFFER_NUM = 2;

class KernelAdd {
 public:
  __aicore__ inline KernelAdd() {}
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t totalLength, uint32_t tileNum) {
    this->blockLength = totalLength / AscendC::GetBlockNum();
    this->tileNum = tileNum;
    this->tileLength = this->blockLength / tileNum / BUFFER_NUM;
    xGm.SetGlobalBuffer((__gm__ half*)x + this->blockLength * AscendC::GetBlockIdx(), this->blockLength);
    yGm.SetGlobalBuffer((__gm__ half*)y + this->blockLength * AscendC::GetBlockIdx(), this->blockLength);
    zGm.SetGlobalBuffer((__gm__ half*)z + this->blockLength * AscendC::GetBlockIdx(), this->blockLength);
    pipe.InitBuffer(inQueueX, BUFFER_NUM, this->tileLength * sizeof(half));
    pipe.InitBuffer(inQueueY, BUFFER_NUM, this->tileLength * sizeof(half));
    pipe.InitBuffer(outQueueZ, BUFFER_NUM, this->tileLength * sizeof(half));
  }
  __aicore__ inline void Process() {
    int32_t loopCount = this->tileNum * BUFFER_NUM;
    for (int32_t i = 0; i < loopCount; i++) {
      CopyIn(i);
      Compute(i);
      CopyOut(i);
    }
  }

 private:
  __aicore__ inline void CopyIn(int32_t progress) {
    AscendC::LocalTensor<half> xLocal = inQueueX.AllocTensor<half>();
    AscendC::LocalTensor<half> yLocal = inQueueY.AllocTensor<half>();
    AscendC::DataCopy(xLocal, xGm[progress * this->tileLength], this->tileLength);
    AscendC::DataCopy(yLocal, yGm[progress * this->tileLength], this->tileLength);
    inQueueX.EnQue(xLocal);
    inQueueY.EnQue(yLocal);
  }
  __aicore__ inline void Compute(int32_t progress) {
    AscendC::LocalTensor<half> xLocal = inQueueX.DeQue<half>();
    AscendC::LocalTensor<half> yLocal = inQueueY.DeQue<half>();
    AscendC::LocalTensor<half> zLocal = outQueueZ.AllocTensor<half>();
    zLocal = xLocal + yLocal;
    outQueueZ.EnQue<half>(zLocal);
    inQueueX.FreeTensor(xLocal);
    inQueueY.FreeTensor(yLocal);
  }
  __aicore__ inline void CopyOut(int32_t progress) {
    AscendC::LocalTensor<half> zLocal = outQueueZ.DeQue<half>();
    AscendC::DataCopy(zGm[progress * this->tileLength], zLocal, this->tileLength);
    outQueueZ.FreeTensor(zLocal);
  }

  AscendC::TPipe pipe;
  AscendC::TQue<AscendC::QuePosition::VECIN, BUFFER_NUM> inQueueX, inQueueY;
  AscendC::TQue<AscendC::QuePosition::VECOUT, BUFFER_NUM> outQueueZ;
  AscendC::GlobalTensor<half> xGm, yGm, zGm;
  uint32_t blockLength, tileNum, tileLength;
};

extern "C" __global__ __aicore__ void sample_add(GM_ADDR x, GM_ADDR y, GM_ADDR z, AddTiling tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  KernelAdd op;
  op.Init(x, y, z, tiling.total_length, tiling.tiles);
  op.Process();
}

#ifndef ASCENDC_CPU_DEBUG
void sample_add_do(uint32_t blockDim, void* stream, uint8_t* x, uint8_t* y, uint8_t* z, AddTiling tiling) {
  sample_add<<<blockDim, nullptr, stream>>>(x, y, z, tiling);
}
#endif

// Quantises groups of 32 numbers to 4 bits each and a scale. Sizes are in global memory; block i takes every
// n-th row.
namespace {

constexpr uint32_t QK = 32;

template <typename T>
__aicore__ inline void CopyWords(T* to, __gm__ const uint8_t* from, uint32_t count) {
  auto* ub = reinterpret_cast<uint8_t*>(to);
  for (uint32_t i = 0; i < count * sizeof(T); ++i) *ub++ = *from++;
}

class QuantizeRows {
 public:
  __aicore__ inline void Init(GM_ADDR input, GM_ADDR output, GM_ADDR scales, GM_ADDR sizes) {
    CopyWords(sizes_, sizes, 2);
    in_.SetGlobalBuffer((__gm__ float*)input);
    out_.SetGlobalBuffer((__gm__ int8_t*)output);
    scale_.SetGlobalBuffer((__gm__ half*)scales);
    pipe_.InitBuffer(queue_, 1, QK * sizeof(float));
    pipe_.InitBuffer(work_, QK * sizeof(float));
    pipe_.InitBuffer(max_, 32);
    pipe_.InitBuffer(half_, QK * sizeof(half));
    pipe_.InitBuffer(packed_, 32);
  }
  __aicore__ inline void Run() {
    const int64_t groups = sizes_[0] * sizes_[1] / QK;
    for (int64_t group = block_idx; group < groups; group += block_num) Group(group);
  }

 private:
  __aicore__ inline void Group(int64_t group) {
    LocalTensor<float> x = queue_.AllocTensor<float>();
    DataCopy(x, in_[group * QK], QK);
    queue_.EnQue(x);
    x = queue_.DeQue<float>();
    LocalTensor<float> work = work_.Get<float>(), max = max_.Get<float>();
    LocalTensor<half> narrow = half_.Get<half>();
    LocalTensor<int4b_t> packed = packed_.Get<int4b_t>();
    Abs(work, x, QK);
    pipe_barrier(PIPE_V);
    ReduceMax(max, work, work, QK);
    pipe_barrier(PIPE_ALL);
    float d = max.GetValue(0) / 7.0f;
    if (d != 0) Muls(x, x, 1.0f / d, QK);
    pipe_barrier(PIPE_V);
    Cast(x, x, RoundMode::CAST_ROUND, QK);
    pipe_barrier(PIPE_V);
    Cast(narrow, x, RoundMode::CAST_ROUND, QK);
    pipe_barrier(PIPE_V);
    Cast(packed, narrow, RoundMode::CAST_ROUND, QK);
    pipe_barrier(PIPE_ALL);
    DataCopyExtParams params;
    params.blockCount = 1;
    params.blockLen = QK / 2;
    DataCopyPad(out_[group * QK / 2], packed.ReinterpretCast<int8_t>(), params);
    max_.Get<half>().SetValue(0, (half)d);
    event_t id = static_cast<event_t>(AscendC::GetTPipePtr()->FetchEventID(HardEvent::S_MTE3));
    set_flag(PIPE_S, PIPE_MTE3, id);
    wait_flag(PIPE_S, PIPE_MTE3, id);
    DataCopyPad(scale_[group], max_.Get<half>(), {1, sizeof(half), 0, 0});
    pipe_barrier(PIPE_ALL);
    queue_.FreeTensor(x);
  }

  template <typename T>
  using LocalTensor = AscendC::LocalTensor<T>;
  using RoundMode = AscendC::RoundMode;
  using HardEvent = AscendC::HardEvent;
  using DataCopyExtParams = AscendC::DataCopyExtParams;
  AscendC::TPipe pipe_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
  AscendC::TBuf<AscendC::QuePosition::VECCALC> work_, max_, half_, packed_;
  AscendC::GlobalTensor<float> in_;
  AscendC::GlobalTensor<int8_t> out_;
  AscendC::GlobalTensor<half> scale_;
  int64_t sizes_[2];
};

}  // namespace

extern "C" __global__ __aicore__ void sample_quantize(GM_ADDR input, GM_ADDR output, GM_ADDR scales, GM_ADDR sizes) {
  QuantizeRows op;
  op.Init(input, output, scales, sizes);
  op.Run();
}

// Row-wise softmax, double-buffered with explicit flags; the sums of squares are accumulated in a workspace;
// after a barrier over all blocks, each copies its rows once more, through a bound queue.
using namespace AscendC;

__global__ __vector__ void sample_rows(__gm__ float* x, __gm__ float* y, GM_ADDR workspace, samples::RowTiling t) {
  if ASCEND_IS_AIV {
    TPipe pipe;
    TBuf<> ping_pong, small;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
    const uint32_t width = (t.columns + 7) / 8 * 8;
    pipe.InitBuffer(ping_pong, 2 * width * sizeof(float));
    pipe.InitBuffer(small, 96);
    pipe.InitBuffer(through, 2, width * sizeof(float));
    GlobalTensor<float> in, out, total;
    in.SetGlobalBuffer(x, t.rows * t.columns);
    out.SetGlobalBuffer(y, 2 * t.rows * t.columns);
    total.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(GetUserWorkspace(workspace)), 8);
    LocalTensor<float> sums = small.Get<float>(), max = sums[8], sum = sums[16];
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
    int turn = 0;
    for (uint32_t row = get_block_idx(); row < t.rows; row += get_block_num(), turn = 1 - turn) {
      const event_t event = turn == 0 ? EVENT_ID0 : EVENT_ID1;
      LocalTensor<float> line = ping_pong.Get<float>()[turn * width];
      wait_flag(PIPE_MTE3, PIPE_MTE2, event);
      DataCopyPad(line, in[row * t.columns], {1, static_cast<uint32_t>(t.columns * sizeof(float)), 0, 0, 0},
                  {false, 0, 0, 0.0f});
      set_flag(PIPE_MTE2, PIPE_V, event);
      wait_flag(PIPE_MTE2, PIPE_V, event);
      Muls(line, line, t.scale, t.columns);
      PipeBarrier<PIPE_V>();
      SoftMax(line, sum, max, line, SoftMaxTiling(), {1, width, 1, t.columns});
      set_flag(PIPE_V, PIPE_MTE3, event);
      wait_flag(PIPE_V, PIPE_MTE3, event);
      DataCopyPad(out[row * t.columns], line, {1, static_cast<uint32_t>(t.columns * sizeof(float)), 0, 0, 0});
      set_flag(PIPE_MTE3, PIPE_V, EVENT_ID2);
      wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID2);
      Mul(line, line, line, t.columns);
      PipeBarrier<PIPE_V>();
      ReduceSum(sums, line, line, t.columns);
      set_flag(PIPE_V, PIPE_MTE3, EVENT_ID3);
      wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID3);
      SetAtomicAdd<float>();
      DataCopyPad(total, sums, {1, sizeof(float), 0, 0, 0});
      SetAtomicNone();
      set_flag(PIPE_MTE3, PIPE_V, EVENT_ID3);
      wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID3);
      set_flag(PIPE_MTE3, PIPE_MTE2, event);
    }
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
    SyncAll();
    for (uint32_t row = get_block_idx(); row < t.rows; row += get_block_num()) {
      LocalTensor<float> line = through.AllocTensor<float>();
      DataCopyPad(line, out[row * t.columns], {1, static_cast<uint32_t>(t.columns * sizeof(float)), 0, 0, 0},
                  {false, 0, 0, 0.0f});
      through.EnQue(line);
      line = through.DeQue<float>();
      DataCopyPad(out[(t.rows + row) * t.columns], line,
                  {1, static_cast<uint32_t>(t.columns * sizeof(float)), 0, 0, 0});
      through.FreeTensor(line);
    }
  }
}
