// Small kernels of several blocks, each wrong in one way: races, missed barriers, misused cross-core flags.
// The line that the checked build must name is marked `wrong`, both lines where two race; in the right_
// kernels nothing is wrong.
#include "wrong_buffers.h"

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

// Block 0 waits for block 1, but after it has written. The accesses are compared when a block ends, and either may end
// last: the message names the last one first.
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
