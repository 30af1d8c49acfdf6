// Small kernels, each wrong in one way that one block shows alone. The line that the checked build must name
// is marked `wrong`.
#include "wrong_buffers.h"

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
  PipeBarrier<PIPE_V>();
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
  PipeBarrier<PIPE_V>();
  Duplicate(tensor, value, 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_vector_order(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> first = b.scratch.Get<float>(), second = first[32];
  Duplicate(first, 1.0f, 32);
  Exp(second, first, 32);  // wrong
}

extern "C" __global__ __aicore__ void wrong_vector_overwritten(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  Exp(b.scratch.Get<float>(), tensor, 64);
  Duplicate(tensor, 1.0f, 64);  // wrong
  b.in.FreeTensor(tensor);
}

// The second Exp reads its operand itself before it overwrites it; the first one may still read it, too.
extern "C" __global__ __aicore__ void wrong_vector_in_place(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  Exp(b.scratch.Get<float>(), tensor, 64);
  Exp(tensor, tensor, 64);  // wrong
  b.in.FreeTensor(tensor);
}

extern "C" __global__ __aicore__ void wrong_scalar_barrier(GM_ADDR x, GM_ADDR y, uint32_t n) {
  PipeBarrier<PIPE_S>();  // wrong
}

// Vector functions in all orders that need no automatic synchronisation: independent, in place, after a barrier, after
// the scalar unit has waited for the vector unit and the other way round, and with a tensor that was copied out.
extern "C" __global__ __aicore__ void right_vector_order(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> first = b.scratch.Get<float>(), second = first[32];
  for (int turn = 0; turn < 2; ++turn) {
    LocalTensor<float> tensor = b.Loaded();
    Adds(tensor, tensor, 1.0f, 64);
    Duplicate(first, 2.0f, 32);
    Duplicate(second, 3.0f, 32);
    PipeBarrier<PIPE_V>();
    Mul(tensor, tensor, first, 64);
    set_flag(PIPE_V, PIPE_S, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_S, EVENT_ID0);
    set_flag(PIPE_S, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_S, PIPE_V, EVENT_ID0);
    LocalTensor<float> result = b.out.AllocTensor<float>();
    Adds(result, tensor, 1.0f, 64);
    b.in.FreeTensor(tensor);
    b.out.EnQue(result);
    result = b.out.DeQue<float>();
    DataCopy(b.target, result, 64);
    b.out.FreeTensor(result);
  }
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

// A queue orders MTE2 before the vector unit, not before MTE3; nor does an element of another tensor.
extern "C" __global__ __aicore__ void wrong_in_to_out(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.Loaded();
  b.scratch.Get<float>().SetValue(0, 1.0f);
  DataCopy(b.target, tensor, 64);  // wrong
  b.in.FreeTensor(tensor);
}

// The compiler makes the scalar unit wait for the copy in, and the copy out for the scalar unit: for the tensor,
// whatever the bytes.
extern "C" __global__ __aicore__ void wrong_scalar_between_copies(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.in.AllocTensor<float>();
  DataCopy(tensor, b.source, 32);
  b.in.EnQue(tensor);
  tensor = b.in.DeQue<float>();
  for (uint32_t i = 32; i < 40; ++i) tensor.SetValue(i, 7.0f);
  DataCopy(b.target, tensor, 40);  // wrong
  b.in.FreeTensor(tensor);
}

// The same in scratch memory, where the compiler knows bytes, not tensors.
extern "C" __global__ __aicore__ void wrong_scalar_in_scratch(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  DataCopy(tensor, b.source, 64);
  tensor.SetValue(0, 7.0f);  // wrong
  DataCopy(b.target, tensor, 64);
}

extern "C" __global__ __aicore__ void wrong_scalar_beside_copies(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  DataCopy(tensor, b.source, 32);
  tensor.SetValue(32, 7.0f);
  DataCopy(b.target, tensor, 32);  // wrong
}

// Bound from scratch memory to itself: from MTE2 to MTE3, past the vector unit.
extern "C" __global__ __aicore__ void right_passed_through(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  TQueBind<TPosition::LCM, TPosition::LCM, 1> through;
  b.pipe.InitBuffer(through, 1, 256);
  for (int turn = 0; turn < 2; ++turn) {
    LocalTensor<float> tensor = through.AllocTensor<float>();
    DataCopy(tensor, b.source, 64);
    through.EnQue(tensor);
    tensor = through.DeQue<float>();
    DataCopy(b.target[64 * turn], tensor, 64);
    through.FreeTensor(tensor);
  }
}

extern "C" __global__ __aicore__ void wrong_passed_to_vector(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  TQueBind<TPosition::LCM, TPosition::LCM, 1> through;
  b.pipe.InitBuffer(through, 1, 256);
  LocalTensor<float> tensor = through.AllocTensor<float>();
  DataCopy(tensor, b.source, 64);
  through.EnQue(tensor);
  tensor = through.DeQue<float>();
  Adds(tensor, tensor, 1.0f, 64);  // wrong
  through.FreeTensor(tensor);
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
  PipeBarrier<PIPE_V>();
  Cast(tensor.ReinterpretCast<int32_t>(), tensor, RoundMode::CAST_NONE, 8);  // wrong
}

extern "C" __global__ __aicore__ void wrong_compare_rest(GM_ADDR x, GM_ADDR y, uint32_t n) {
  Buffers b(x, y, n);
  LocalTensor<float> tensor = b.scratch.Get<float>();
  Duplicate(tensor, 1.5f, 64);
  PipeBarrier<PIPE_V>();
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
  PipeBarrier<PIPE_V>();
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
  PipeBarrier<PIPE_V>();
  const uint16_t lengths[4] = {4, 4, 4, 2};
  MrgSort(tensor, {tensor, tensor[8], tensor[16], tensor[24]}, {lengths, false, 15, 2});  // wrong
}
