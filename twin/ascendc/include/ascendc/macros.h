// The keywords that mark kernels and their memory, which mean nothing to a host compiler.
#pragma once

#include <cstdint>

#define __global__
#define __aicore__
#define __vector__
#define __cube__
#define __mix__(cube, vector)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __inout_pipe__(...)
#define __CCE_AICORE__ 220
#define __NPU_ARCH__ 2201
using GM_ADDR = __gm__ uint8_t*;

// A kernel runs on vector cores unless it declares KERNEL_TYPE_AIC_ONLY, which is known when it runs.
#define ASCEND_IS_AIV (!twin::ascendc::ThisCore().cube)
#define ASCEND_IS_AIC (twin::ascendc::ThisCore().cube)
namespace AscendC {
enum KernelCore { MIX, AIC, AIV };
}  // namespace AscendC
constexpr AscendC::KernelCore g_coreType = AscendC::AIV;
