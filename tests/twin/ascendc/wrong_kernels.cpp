// Small kernels, each wrong in one way. The line that the checked build must name is marked `wrong`, both
// where two lines race; in the right_ kernels nothing is wrong.
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

extern "C" __global__ __aicore__ void wrong_capacity(GM_ADDR x, GM_ADDR y, uint32_t n) {
  TPipe pipe;
  TBuf<> first, second;
  pipe.InitBuffer(first, 100 * 1024);
  pipe.InitBuffer(second, 90 * 1024);  // wrong
}

extern "C" __global__ __aicore__ void wrong_alignment(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  Adds(tensor, tensor[3], 1.0f, 8);  // wrong
  b.in.FreeTensor(tensor);
}

extern "C" __global__ __aicore__ void wrong_copy_alignment(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  DataCopy(b.scratch.Get<float>()[1], b.source, 8);  // wrong
}

extern "C" __global__ __aicore__ void wrong_bounds(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  Duplicate(b.scratch.Get<float>(), 1.0f, 65);  // wrong
}

extern "C" __global__ __aicore__ void wrong_alloc(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  [[maybe_unused]] LocalTensor<float> first = b.out.AllocTensor<float>();
  [[maybe_unused]] LocalTensor<float> second = b.out.AllocTensor<float>();  // wrong
}

extern "C" __global__ __aicore__ void wrong_empty_queue(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  [[maybe_unused]] LocalTensor<float> tensor = b.in.DeQue<float>();  // wrong
}

extern "C" __global__ __aicore__ void wrong_queued_twice(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.in.AllocTensor<float>();
  b.in.EnQue(tensor);
  b.in.EnQue(tensor);  // wrong
}

extern "C" __global__ __aicore__ void wrong_freed_twice(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  b.in.FreeTensor(tensor);
  b.in.FreeTensor(tensor);  // wrong
}

extern "C" __global__ __aicore__ void wrong_use_after_free(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  b.in.FreeTensor(tensor);
  Adds(tensor, tensor, 1.0f, 8);  // wrong
}

extern "C" __global__ __aicore__ void wrong_queue_of_another(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  b.out.FreeTensor(tensor);  // wrong
}

extern "C" __global__ __aicore__ void wrong_never_freed(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  [[maybe_unused]] LocalTensor<float> tensor = b.out.AllocTensor<float>();  // wrong
}

extern "C" __global__ __aicore__ void wrong_unwritten(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.0f, 10);
  Exp(tensor, tensor, 12);  // wrong
}

extern "C" __global__ __aicore__ void wrong_stale(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  b.in.FreeTensor(tensor);
  tensor = b.in.AllocTensor<float>();  // the bytes are still there, but a device need not preserve them
  Exp(tensor, tensor, 8);              // wrong
  b.in.FreeTensor(tensor);
}

extern "C" __global__ __aicore__ void wrong_global_read(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.in.AllocTensor<float>();
  DataCopy(tensor, b.source[n - 32], 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_global_write(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.out.AllocTensor<float>();
  Duplicate(tensor, 1.0f, 64);
  b.out.EnQue(tensor);
  tensor = b.out.DeQue<float>();
  DataCopyPad(b.target[n], tensor, {1, 4, 0, 0, 0});  // wrong
}

extern "C" __global__ __aicore__ void wrong_allocation(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  GlobalTensor<float> unbounded;
  unbounded.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
  LocalTensor<float> tensor = b.in.AllocTensor<float>();
  DataCopy(tensor, unbounded[1 << 20], 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_in_to_vector(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  DataCopy(tensor, b.source, 64);
  Adds(tensor, tensor, 1.0f, 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_vector_to_out(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.0f, 64);
  DataCopy(b.target, tensor, 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_overwritten(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.0f, 64);
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(b.target, tensor, 64);
  Duplicate(tensor, 2.0f, 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_vector_to_scalar(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.0f, 64);
  const float value = tensor.GetValue(0);  // wrong
  if (value > 2.0f) Duplicate(tensor, value, 64);
}

extern "C" __global__ __aicore__ void wrong_scalar_to_vector(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  tensor.SetValue(0, 1.0f);
  Exp(tensor, tensor, 1);  // wrong
}

// The vector unit overwrites what the scalar unit may still read.
extern "C" __global__ __aicore__ void wrong_scalar_overwritten(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.0f, 64);
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  const float value = tensor.GetValue(0);
  Duplicate(tensor, value, 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_in_to_scalar(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  DataCopy(tensor, b.source, 64);
  b.target.SetValue(0, tensor.GetValue(5));  // wrong
}

extern "C" __global__ __aicore__ void wrong_scalar_to_out(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  for (uint32_t i = 0; i < 8; ++i) tensor.SetValue(i, 1.0f);
  DataCopy(b.target, tensor, 8);  // wrong
}

extern "C" __global__ __aicore__ void wrong_global_order(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.out.AllocTensor<float>();
  Duplicate(tensor, 1.0f, 64);
  b.out.EnQue(tensor);
  tensor = b.out.DeQue<float>();
  DataCopy(b.target, tensor, 64);
  b.out.FreeTensor(tensor);
  tensor = b.in.AllocTensor<float>();
  DataCopy(tensor, b.target, 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_flag_never_waited(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  SetFlag<HardEvent::MTE2_V>(3);  // wrong
}

extern "C" __global__ __aicore__ void wrong_flag_never_set(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  WaitFlag<HardEvent::MTE2_V>(3);  // wrong
}

extern "C" __global__ __aicore__ void wrong_flag_set_twice(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  SetFlag<HardEvent::MTE2_V>(3);
  SetFlag<HardEvent::MTE2_V>(3);  // wrong
}

extern "C" __global__ __aicore__ void wrong_flag_id(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  SetFlag<HardEvent::MTE2_V>(8);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cast_mode(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.5f, 8);
  Cast(tensor.ReinterpretCast<int32_t>(), tensor, RoundMode::CAST_NONE, 8);  // wrong
}

extern "C" __global__ __aicore__ void wrong_compare_rest(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.5f, 64);
  CompareScalar(tensor.ReinterpretCast<uint8_t>(), tensor, 1.0f, CMPMODE::LT, 40);  // wrong
}

extern "C" __global__ __aicore__ void wrong_padding(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  DataCopyPad(b.scratch.Get<float>(), b.source, {1, 20, 0, 0, 0}, {true, 9, 0, 0.0f});  // wrong
}

extern "C" __global__ __aicore__ void wrong_open_padding(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.in.AllocTensor<float>();
  DataCopyPad(tensor, b.source, {1, 20, 0, 0, 0}, {false, 0, 3, 0.0f});
  b.in.EnQue(tensor);
  tensor = b.in.DeQue<float>();
  Exp(tensor, tensor, 8);  // wrong
  b.in.FreeTensor(tensor);
}

// Block 1 fails; the others are waiting for it.
extern "C" __global__ __aicore__ void wrong_in_one_block(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  if (GetBlockIdx() == 1) Duplicate(b.scratch.Get<float>(), 1.0f, 100);  // wrong
  SyncAll();
}

// One block leaves early; the others wait for it.
extern "C" __global__ __aicore__ void wrong_sync_missed(GM_ADDR x, GM_ADDR y, uint32_t n) {
  if (GetBlockIdx() == 1) return;
  SyncAll();  // wrong
}

extern "C" __global__ __aicore__ void wrong_race_of_writes(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  DataCopy(b.target, b.Ready(1.0f), 64);  // wrong
  b.out.FreeTensor(b.ready);
}

// Block 0 ends last: it waits for block 1, but after it has written.
extern "C" __global__ __aicore__ void wrong_race_with_a_read(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  if (GetBlockIdx() == 1) {
    LocalTensor<float> tensor = b.in.AllocTensor<float>();
    DataCopy(tensor, b.target, 64);  // wrong
    b.in.FreeTensor(tensor);
    IBSet(b.Flags(x, n), b.scratch.Get<int32_t>(), 1, 0);
  } else {
    DataCopy(b.target, b.Ready(1.0f), 64);  // wrong
    b.out.FreeTensor(b.ready);
    IBWait(b.Flags(x, n), b.scratch.Get<int32_t>(), 1, 0);
  }
}

// Ordered at first, then not: a block overwrites its own part while its neighbour may still read it.
extern "C" __global__ __aicore__ void wrong_race_after_sync(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  const uint32_t block = static_cast<uint32_t>(GetBlockIdx());
  DataCopy(b.target[block * 64], b.Ready(1.0f), 64);
  b.out.FreeTensor(b.ready);
  SyncAll();
  LocalTensor<float> tensor = b.in.AllocTensor<float>();
  DataCopy(tensor, b.target[(1 - block) * 64], 64);  // wrong
  b.in.FreeTensor(tensor);
  DataCopy(b.target[block * 64], b.Ready(2.0f), 64);  // wrong
  b.out.FreeTensor(b.ready);
}

// Block 0 adds where block 1 only writes.
extern "C" __global__ __aicore__ void wrong_race_with_an_atomic(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  if (GetBlockIdx() == 0) SetAtomicAdd<float>();
  DataCopy(b.target, b.Ready(1.0f), 64);  // wrong
  b.out.FreeTensor(b.ready);
  SetAtomicNone();
}

extern "C" __global__ __aicore__ void wrong_race_of_scalars(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  b.target.SetValue(7, 1.0f);  // wrong
}

// Blocks 0 and 1 are a pair, 2 and 3 another: block 2 has not waited for block 0.
extern "C" __global__ __aicore__ void wrong_race_between_pairs(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  if (GetBlockIdx() == 0) DataCopy(b.target, b.Ready(1.0f), 64);  // wrong
  CrossCoreSetFlag<1, PIPE_MTE3>(3);
  CrossCoreWaitFlag(3);
  if (GetBlockIdx() == 2) DataCopy(b.target, b.Ready(1.0f), 64);  // wrong
  if (GetBlockIdx() % 2 == 0) b.out.FreeTensor(b.ready);
}

extern "C" __global__ __aicore__ void wrong_cross_core_never_set(GM_ADDR x, GM_ADDR y, uint32_t n) {
  CrossCoreWaitFlag(5);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cross_core_never_waited(GM_ADDR x, GM_ADDR y, uint32_t n) {
  CrossCoreSetFlag<0, PIPE_MTE3>(5);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cross_core_too_often(GM_ADDR x, GM_ADDR y, uint32_t n) {
  for (int i = 0; i < 17; ++i) CrossCoreSetFlag<0, PIPE_MTE3>(5);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cross_core_pipe(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  DataCopy(b.target, b.Ready(1.0f), 64);
  b.out.FreeTensor(b.ready);
  CrossCoreSetFlag<0, PIPE_V>(5);  // wrong
  CrossCoreWaitFlag(5);
}

extern "C" __global__ __aicore__ void wrong_cross_core_pairs(GM_ADDR x, GM_ADDR y, uint32_t n) {
  CrossCoreSetFlag<1, PIPE_MTE3>(5);  // wrong
  CrossCoreWaitFlag(5);
}

extern "C" __global__ __aicore__ void wrong_cross_core_cube(GM_ADDR x, GM_ADDR y, uint32_t n) {
  CrossCoreSetFlag<2, PIPE_MTE3>(5);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cross_core_id(GM_ADDR x, GM_ADDR y, uint32_t n) {
  CrossCoreSetFlag<0, PIPE_MTE3>(16);  // wrong
}

extern "C" __global__ __aicore__ void wrong_wait_for_oneself(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  IBWait(b.Flags(x, n), b.scratch.Get<int32_t>(), 0, 0);  // wrong
}

extern "C" __global__ __aicore__ void wrong_flag_workspace(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  IBSet(b.Flags(x, n), b.scratch.Get<int32_t>(), 0, 1000);  // wrong
}

extern "C" __global__ __aicore__ void wrong_sync_workspace(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  SyncAll(b.Flags(x, n), b.scratch.Get<int32_t>(1));  // wrong
}

extern "C" __global__ __aicore__ void wrong_old_flag(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID2);  // wrong
}

extern "C" __global__ __aicore__ void wrong_old_wait(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID2);  // wrong
}

extern "C" __global__ __aicore__ void wrong_operator(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>(), filled = tensor[32];
  Duplicate(filled, 1.0f, 32);
  filled = filled + tensor;  // wrong
}

extern "C" __global__ __aicore__ void wrong_element(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  b.target(n) = 1.0f;  // wrong
}

extern "C" __global__ __aicore__ void wrong_local_element(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  b.scratch.Get<float>()(64) = 1.0f;  // wrong
}

extern "C" __global__ __aicore__ void wrong_tiling_key(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  if (TILING_KEY_IS(1)) return;  // wrong
}

extern "C" __global__ __aicore__ void wrong_merge(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.0f, 64);
  const uint16_t lengths[4] = {4, 4, 4, 2};
  MrgSort(tensor, {tensor, tensor[8], tensor[16], tensor[24]}, {lengths, false, 15, 2});  // wrong
}

// Each block doubles its part of x into y, then all add their block number to y[n - 1]; done twice.
extern "C" __global__ __aicore__ void right_blocks(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  const uint32_t block = static_cast<uint32_t>(GetBlockIdx());
  for (int round = 0; round < 2; ++round) {
    LocalTensor<float> tensor = b.in.AllocTensor<float>();
    DataCopyPad(tensor, b.source[block], {1, 4, 0, 0, 0}, {false, 0, 0, 0.0f});
    b.in.EnQue(tensor);
    tensor = b.in.DeQue<float>();
    LocalTensor<float> result = b.out.AllocTensor<float>();
    Muls(result, tensor, 2.0f, 1);
    b.out.EnQue(result);
    result = b.out.DeQue<float>();
    DataCopyPad(b.target[block], result, {1, 4, 0, 0, 0});
    b.in.FreeTensor(tensor);
    b.out.FreeTensor(result);
    SyncAll();
    result = b.out.AllocTensor<float>();
    Duplicate(result, static_cast<float>(block), 1);
    b.out.EnQue(result);
    result = b.out.DeQue<float>();
    SetAtomicAdd<float>();
    DataCopyPad(b.target[n - 1], result, {1, 4, 0, 0, 0});
    SetAtomicNone();
    b.out.FreeTensor(result);
    CrossCoreSetFlag<0, PIPE_MTE3>(5);
    CrossCoreWaitFlag(5);
  }
}

// Block i waits for block i - 1, adds 1 to its result, and passes it on; y[n - 1] counts the blocks and, with
// the same flags a second time, y[n - 2]. `x` is zeros.
extern "C" __global__ __aicore__ void right_relay(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<int32_t> workspace = b.scratch.Get<int32_t>();
  const int32_t block = static_cast<int32_t>(GetBlockIdx());
  for (uint32_t round = 1; round <= 2; ++round) {
    if (block > 0) IBWait(b.Flags(x, n), workspace, block - 1, 0);
    LocalTensor<float> tensor = b.in.AllocTensor<float>();
    DataCopyPad(tensor, b.target[n - round], {1, 4, 0, 0, 0}, {false, 0, 0, 0.0f});
    b.in.EnQue(tensor);
    tensor = b.in.DeQue<float>();
    LocalTensor<float> result = b.out.AllocTensor<float>();
    Adds(result, tensor, 1.0f, 1);
    b.out.EnQue(result);
    result = b.out.DeQue<float>();
    DataCopyPad(b.target[n - round], result, {1, 4, 0, 0, 0});
    b.in.FreeTensor(tensor);
    b.out.FreeTensor(result);
    if (block + 1 < GetBlockNum()) IBSet(b.Flags(x, n), workspace, block, 0);
  }
}

// Block 0 sets twice before it waits; its first wait is still for the first set of all others.
extern "C" __global__ __aicore__ void right_two_sets(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  if (GetBlockIdx() == 0) {
    CrossCoreSetFlag<0, PIPE_MTE3>(1);
    CrossCoreSetFlag<0, PIPE_MTE3>(1);
    CrossCoreWaitFlag(1);
    b.in.FreeTensor(b.ready = b.Loaded(b.target[64]));
    CrossCoreWaitFlag(1);
    return;
  }
  DataCopy(b.target[static_cast<uint32_t>(GetBlockIdx()) * 64], b.Ready(1.0f), 64);
  b.out.FreeTensor(b.ready);
  for (int round = 0; round < 2; ++round) {
    CrossCoreSetFlag<0, PIPE_MTE3>(1);
    CrossCoreWaitFlag(1);
  }
}

// Each block writes its part, reads its neighbour's, and overwrites its own, with a barrier before each step:
// SyncAll, SyncAll with a workspace, and flags; in the end y is 3 everywhere. `x` is zeros.
extern "C" __global__ __aicore__ void right_exchange(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  const uint32_t block = static_cast<uint32_t>(block_idx), blocks = static_cast<uint32_t>(block_num);
  TBuf<> flags;
  b.pipe.InitBuffer(flags, blocks * 32);
  const GlobalTensor<float> mine = b.target[block * 64 % n], next = b.target[(block + 1) % blocks * 64 % n];
  if (block * 64 >= n) return;
  DataCopy(mine, b.Ready(1.0f), 64);
  b.out.FreeTensor(b.ready);
  SyncAll(b.Flags(x, n), flags.Get<int32_t>());
  LocalTensor<float> tensor = b.in.AllocTensor<float>();
  DataCopy(tensor, next, 64);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  LocalTensor<float> sum = b.out.AllocTensor<float>(), two = b.scratch.Get<float>();
  Duplicate(two, 2.0f, 64);
  sum = tensor + two;
  b.in.FreeTensor(tensor);
  b.out.EnQue(sum);
  sum = b.out.DeQue<float>();
  SyncAll();
  DataCopy(mine, sum, 64);
  b.out.FreeTensor(sum);
  pipe_barrier(PIPE_ALL);
}

// Pairs of blocks: the even one writes, the odd one adds 1 to it, the even one doubles that.
extern "C" __global__ __aicore__ void right_pairs(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  const uint32_t block = static_cast<uint32_t>(GetBlockIdx());
  const GlobalTensor<float> ours = b.target[block / 2 * 64];
  for (uint32_t turn = 0; turn < 3; ++turn) {
    if (turn % 2 == block % 2) {
      LocalTensor<float> tensor = b.in.AllocTensor<float>();
      DataCopy(tensor, ours, 64);
      b.in.EnQue(tensor);
      tensor = b.in.DeQue<float>();
      LocalTensor<float> result = b.out.AllocTensor<float>();
      if (turn == 2) Muls(result, tensor, 2.0f, 64);
      if (turn < 2) Adds(result, tensor, 1.0f, 64);
      b.in.FreeTensor(tensor);
      b.out.EnQue(result);
      result = b.out.DeQue<float>();
      DataCopy(ours, result, 64);
      b.out.FreeTensor(result);
    }
    CrossCoreSetFlag<1, PIPE_MTE3>(7);
    CrossCoreWaitFlag(7);
  }
}
