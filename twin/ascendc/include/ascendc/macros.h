// The words that mark kernels and their memory, which mean nothing to a host compiler, and the built-ins.
#pragma once

#include <cstdint>

#define __global__
#define __aicore__
#define __vector__
#define __cube__
#define __mix__(cube, vector)
#define __gm__
#define __ubuf__
#define __CCE_AICORE__ 220
#define __NPU_ARCH__ 2201
using GM_ADDR = __gm__ uint8_t*;

// Kernels here run on vector cores only.
#define ASCEND_IS_AIV (true)
#define ASCEND_IS_AIC (false)
#define KERNEL_TYPE_AIV_ONLY 0
#define KERNEL_TASK_TYPE_DEFAULT(type)
