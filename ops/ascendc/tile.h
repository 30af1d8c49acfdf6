// Shared by the kernels: rows of a matrix in tiles of columns, moved between global memory and the core,
// widened to fp32 and rounded back. Uses nothing but AscendC; knows no operator.
//
// A vector function may begin before the one before it has ended. So the kernels, and what is here, call
// PipeBarrier<PIPE_V>() before each one that depends on another, also where it only overwrites what that one
// reads: they are right with and without the compiler's automatic synchronisation.
#pragma once

#include "kernel_operator.h"

namespace trireme_kernels {

using AscendC::DataCopyExtParams;
using AscendC::DataCopyPad;
using AscendC::DataCopyPadExtParams;
using AscendC::GlobalTensor;
using AscendC::HardEvent;
using AscendC::LocalTensor;
using AscendC::PipeBarrier;
using AscendC::RoundMode;
using AscendC::TBuf;
using AscendC::TPipe;
using AscendC::TPosition;
using AscendC::TQue;

constexpr uint32_t kFloat = 0, kHalf = 1;  // element types as a kernel's argument; others are bfloat16_t

template <typename T>
struct IsFloat {
  static constexpr bool value = false;
};
template <>
struct IsFloat<float> {
  static constexpr bool value = true;
};

using InQueue = TQue<TPosition::VECIN, 1>;
using OutQueue = TQue<TPosition::VECOUT, 1>;

// [begin, end) of `total` items for this block: contiguous, sizes differing by at most one.
struct Share {
  uint32_t begin, end;
};
__aicore__ inline Share MyShare(uint32_t total) {
  const uint64_t blocks = static_cast<uint64_t>(AscendC::GetBlockNum()),
                 block = static_cast<uint64_t>(AscendC::GetBlockIdx());
  return {static_cast<uint32_t>(total * block / blocks), static_cast<uint32_t>(total * (block + 1) / blocks)};
}

__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <typename T>
__aicore__ inline GlobalTensor<T> GlobalOf(GM_ADDR address, uint64_t size) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address), size);
  return tensor;
}

template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count) {
  DataCopyPad(to, from, DataCopyExtParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0},
              DataCopyPadExtParams<T>{false, 0, 0, T()});
}
template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t count) {
  DataCopyPad(to, from, DataCopyExtParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0});
}

// Loads `count` elements through a queue: the result is ready for the vector unit, and freed by the caller.
template <typename T>
__aicore__ inline LocalTensor<T> Load(InQueue& queue, const GlobalTensor<T>& from, uint32_t count) {
  LocalTensor<T> tensor = queue.AllocTensor<T>();
  CopyIn(tensor, from, count);
  queue.EnQue(tensor);
  return queue.DeQue<T>();
}
// Stores a tensor that the vector unit has filled, and frees it.
template <typename T>
__aicore__ inline void Store(OutQueue& queue, LocalTensor<T>& tensor, const GlobalTensor<T>& to, uint32_t count) {
  queue.EnQue(tensor);
  LocalTensor<T> ready = queue.DeQue<T>();
  CopyOut(to, ready, count);
  queue.FreeTensor(ready);
}

// The values in fp32: in place if they are fp32, otherwise in `wide`.
template <typename T>
__aicore__ inline LocalTensor<float> Widen(const LocalTensor<T>& narrow, const LocalTensor<float>& wide,
                                           uint32_t count) {
  if constexpr (IsFloat<T>::value) {
    return narrow;
  } else {
    PipeBarrier<PIPE_V>();
    Cast(wide, narrow, RoundMode::CAST_NONE, count);
    return wide;
  }
}
// Always into `wide`: the queue's tensor can be freed.
template <typename T>
__aicore__ inline void WidenInto(const LocalTensor<float>& wide, const LocalTensor<T>& narrow, uint32_t count) {
  PipeBarrier<PIPE_V>();
  if constexpr (IsFloat<T>::value) {
    Muls(wide, narrow, 1.0f, static_cast<int32_t>(count));
  } else {
    Cast(wide, narrow, RoundMode::CAST_NONE, count);
  }
}
// Loads and widens: `wide` holds the values, and the queue's tensor is freed.
template <typename T>
__aicore__ inline void LoadWide(InQueue& queue, const GlobalTensor<T>& from, const LocalTensor<float>& wide,
                                uint32_t count) {
  LocalTensor<T> loaded = Load(queue, from, count);
  WidenInto(wide, loaded, count);
  queue.FreeTensor(loaded);
}

// Where fp32 results for a tensor of T are computed: in the tensor itself, or in `wide` until Narrow rounds
// them.
template <typename T>
__aicore__ inline LocalTensor<float> ResultOf(const LocalTensor<T>& out, const LocalTensor<float>& wide) {
  if constexpr (IsFloat<T>::value) {
    return out;
  } else {
    return wide;
  }
}
template <typename T>
__aicore__ inline void Narrow(const LocalTensor<T>& out, const LocalTensor<float>& wide, uint32_t count) {
  if constexpr (!IsFloat<T>::value) {
    PipeBarrier<PIPE_V>();
    Cast(out, wide, RoundMode::CAST_RINT, count);
  }
}
// Rounds fp32 values to T and back; `narrow` is scratch.
template <typename T>
__aicore__ inline void RoundThrough(const LocalTensor<float>& wide, const LocalTensor<T>& narrow, uint32_t count) {
  if constexpr (!IsFloat<T>::value) {
    PipeBarrier<PIPE_V>();
    Cast(narrow, wide, RoundMode::CAST_RINT, count);
    PipeBarrier<PIPE_V>();
    Cast(wide, narrow, RoundMode::CAST_NONE, count);
  }
}

// Makes one pipe wait for another, immediately.
template <HardEvent event>
__aicore__ inline void Wait() {
  const AscendC::TEventID id = AscendC::GetTPipePtr()->FetchEventID(event);
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}
// Reads an element that the vector unit wrote, for the scalar unit; the vector unit may overwrite it at once.
__aicore__ inline float Read(const LocalTensor<float>& tensor, uint32_t index) {
  Wait<HardEvent::V_S>();
  const float value = tensor.GetValue(index);
  Wait<HardEvent::S_V>();
  return value;
}

// Calls Kernel<T>::Run(args...) for the element type given by the host.
template <template <typename> class Kernel, typename... Args>
__aicore__ inline void ByType(uint32_t type, Args... args) {
  if (type == kFloat) {
    Kernel<float>().Run(args...);
  } else if (type == kHalf) {
    Kernel<half>().Run(args...);
  } else {
    Kernel<bfloat16_t>().Run(args...);
  }
}

}  // namespace trireme_kernels
