// Debug output of a kernel: text, and the first elements of a tensor.
#pragma once

#include <cstdio>

#include "ascendc/tensor.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

template <typename... Args>
void printf(const char* format, Args... args) {
  std::printf(format, args...);
}

namespace debug {
template <typename Value>
void Dump(uint32_t desc, uint32_t count, Value value) {
  std::printf("block %u, dump %u:", twin::ascendc::ThisCore().block, desc);
  for (uint32_t i = 0; i < count; ++i) std::printf(" %g", static_cast<double>(value(i)));
  std::printf("\n");
}
}  // namespace debug
// After everything the pipes have done so far, as a device prints it.
template <typename T>
void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize) {
  debug::Dump(desc, dumpSize, [&](uint32_t i) { return static_cast<double>(tensor.data()[i]); });
}
template <typename T>
void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize) {
  debug::Dump(desc, dumpSize, [&](uint32_t i) { return static_cast<double>(tensor.data()[i]); });
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC

#define PRINTF AscendC::printf
