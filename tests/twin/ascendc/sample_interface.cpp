// Kernels with features that third-party code uses: declared by macros (one in a header), arguments of any
// name, 4-bit elements, a tensor that goes in and out through one buffer, custom tiling data, and the
// functions for progressions, cumulative sums, broadcasts and top-k.
#include "sample_macros.h"

#include "kernel_operator.h"
#include "kernel_operator_intf.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_type.h"
#include "tests/twin/ascendc/sample_tiling.h"

using namespace AscendC;

namespace {

template <typename T>
__aicore__ inline void ScaleBy(GM_ADDR x, GM_ADDR y, uint32_t count, T factor) {
  static_assert(IsSameType<T, T>::value && !IsSameType<T, uint8_t>::value, "types are told apart");
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
  pipe.InitBuffer(through, 1, count * sizeof(T));
  GlobalTensor<T> in, out;
  in.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), count);
  out.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), count);
  LocalTensor<T> tensor = through.template AllocTensor<T>();
  DataCopy(tensor, in, count);
  through.template EnQue<TPosition::GM, TPosition::VECIN, T>(tensor);
  tensor = through.template DeQue<TPosition::GM, TPosition::VECIN, T>();
  Muls(tensor, tensor, factor, static_cast<int32_t>(count));
  through.template EnQue<TPosition::VECOUT, TPosition::GM, T>(tensor);
  tensor = through.template DeQue<TPosition::VECOUT, TPosition::GM, T>();
  DataCopy(out, tensor, count);
  through.FreeTensor(tensor);
}

}  // namespace

SAMPLE_SCALE_KERNEL(float, 3)
SAMPLE_SCALE_KERNEL(half, 2)

#if defined(ASCENDC_CPU_DEBUG)
#define SAMPLE_ENTRY extern "C" __global__ __aicore__
#else
#define SAMPLE_ENTRY extern "C" __global__ __aicore__ [[bisheng::core_ratio(0, 1)]]
#endif

// Groups of 32 4-bit numbers, followed by the scales of all groups.
SAMPLE_ENTRY void sample_dequantize(GM_ADDR packed, GM_ADDR scales, GM_ADDR out, uint32_t groups) {
  constexpr uint32_t kGroup = 32;
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> ready;
  TBuf<> half_buffer;
  pipe.InitBuffer(in, 1, kGroup * sizeof(int4b_t));
  pipe.InitBuffer(ready, 1, kGroup * sizeof(float));
  pipe.InitBuffer(half_buffer, kGroup * sizeof(half));
  GlobalTensor<int4b_t> four;
  GlobalTensor<half> scale;
  GlobalTensor<float> values;
  four.SetGlobalBuffer(reinterpret_cast<__gm__ int4b_t*>(packed));
  scale.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(scales), groups);
  values.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(out), groups * kGroup);
  for (uint32_t group = 0; group < groups; ++group) {
    LocalTensor<int4b_t> narrow = in.AllocTensor<int4b_t>();
    DataCopy(narrow, four[group * kGroup], kGroup);
    in.EnQue(narrow);
    narrow = in.DeQue<int4b_t>();
    LocalTensor<half> wide = half_buffer.Get<half>();
    LocalTensor<float> result = ready.AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    Cast(wide, narrow, RoundMode::CAST_NONE, kGroup);
    PipeBarrier<PIPE_V>();
    Cast(result, wide, RoundMode::CAST_NONE, kGroup);
    PipeBarrier<PIPE_V>();
    Muls(result, result, static_cast<float>(scale.GetValue(group)), static_cast<int32_t>(kGroup));
    in.FreeTensor(narrow);
    ready.EnQue(result);
    result = ready.DeQue<float>();
    DataCopy(values[group * kGroup], result, kGroup);
    ready.FreeTensor(result);
  }
}

// A tiling that the kernel modifies, a tensor that is enqueued again, and flags as objects.
SAMPLE_ENTRY void sample_tiled(GM_ADDR x, GM_ADDR y, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(samples::RowTiling);
  GET_TILING_DATA(data, tiling);
  data.scale += 1;
  const int64_t began = GetSystemCycle();
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 1, data.columns * sizeof(float));
  GlobalTensor<float> source, target;
  source.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), data.columns);
  target.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), data.columns);
  LocalTensor<float> line = in.AllocTensor<float>();
  DataCopy(line, source, data.columns);
  in.EnQue(line);
  line = in.DeQue<float>();
  Muls(line, line, data.scale, static_cast<int32_t>(data.columns));
  in.EnQue(line);
  line = in.DeQue<float>();
  const TEventID id = GetTPipePtr()->FetchEventID(HardEvent::V_S);
  TQueSync<PIPE_V, PIPE_S> to_scalar;
  to_scalar.SetFlag(id);
  to_scalar.WaitFlag(id);
  line.SetValue(0, GetSystemCycle() >= began ? line.GetValue(0) : -1.0f);
  TQueSync<PIPE_S, PIPE_MTE3> to_out;
  to_out.SetFlag(id);
  to_out.WaitFlag(id);
  DataCopy(target, line, data.columns);
  in.FreeTensor(line);
}
