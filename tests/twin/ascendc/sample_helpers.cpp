// A kernel of the name of a C function, with the helpers that third-party code takes for granted: sqrt(x² + y²),
// limited, after the rest of the output has been filled.
#include "kernel_utils.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void hypot(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, uint32_t n,
                                            uint32_t room) {
  SetSysWorkspace(workspace);
  ASSERT(GetBlockNum() != 0 && "block dim can not be zero!");
  ASSERT(n <= room && "more elements than room");
  ASSERT(n / ONE_REPEAT_FLOAT_SIZE <= MAX_REPEAT_TIMES && "more than one instruction repeats");
  TPipe pipe;
  TBuf<> work;
  const uint32_t padded = AlignUp(n, B32_DATA_NUM_PER_BLOCK);
  pipe.InitBuffer(work, 2 * padded * B32_BYTE_SIZE);
  GlobalTensor<float> a, b, result;
  a.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), padded);
  b.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), padded);
  result.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(out), room);
  LocalTensor<float> first = work.AllocTensor<float>(), second = first[padded];
  const uint16_t blocks = min(DivCeil(n, B32_DATA_NUM_PER_BLOCK), Ceil(padded, 8));
  DataCopy(first, a, {1, blocks, 0, 0});
  DataCopy(second, b, {1, blocks, 0, 0});
  PipeBarrier<PIPE_ALL>();
  Power(first, first, 2.f, n);
  Mul(second, second, second, n);
  PipeBarrier<PIPE_V>();
  Add(first, first, second, n);
  PipeBarrier<PIPE_V>();
  Sqrt(first, first, n);
  PipeBarrier<PIPE_V>();
  ClampMax<float>(second, first, PI, n);
  InitGlobalMemory(result, room, -1);
  PipeBarrier<PIPE_ALL>();
  if (likely(n > 0)) DataCopyPad(result, second, {1, static_cast<uint32_t>(n * sizeof(float)), 0, 0, 0});
  work.FreeTensor(first);
}
