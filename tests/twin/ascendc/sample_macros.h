// A macro that declares kernels, as in libraries of elementwise operators; for sample_interface.cpp.
#pragma once

#define SAMPLE_SCALE_KERNEL(type, factor)                                                            \
  extern "C" __global__ __aicore__ void sample_scale_##type(GM_ADDR x, GM_ADDR y, uint32_t blockDim, \
                                                            uint32_t stream) {                       \
    ScaleBy<type>(x, y, blockDim * stream, static_cast<type>(factor));                               \
  }
