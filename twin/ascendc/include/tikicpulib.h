// Calling a kernel as a function: all blocks run before the call returns, in this build (checked if
// TWIN_ASCENDC_CHECKED is defined). A failure terminates the program with its message.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "acl/acl.h"
#include "ascendc/launch.h"
#include "kernel_operator.h"

namespace AscendC {

enum class KernelMode { MIX_MODE, AIC_MODE, AIV_MODE };
inline void SetKernelMode(KernelMode) {}
inline void* GmAlloc(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
inline void GmFree(void* memory) { std::free(memory); }

namespace tikicpulib {

template <auto kernel, typename... Params, typename... Args>
void Run(void (*)(Params...), const char* name, uint32_t blocks, Args... args) {
  static const char* kernel_name;
  kernel_name = name;
  const auto body = [](uint32_t block, uint32_t count, const void* packed) {
    twin::ascendc::RunBlock<kernel, policy::kChecked>(kernel_name, block, count, packed);
  };
  const twin::ascendc::Kernel found{name, body, body};
  if (twin::ascendc::Launch<Params...>(found, blocks, twinCallersThreads(8), (Params)(args)...) == 0) return;
  std::fprintf(stderr, "%s\n", aclGetRecentErrMsg());
  std::exit(1);
}

}  // namespace tikicpulib
}  // namespace AscendC

#define ICPU_SET_TILING_KEY(key) twin::ascendc::SetTilingKey(key)
#define ICPU_RUN_KF(kernel, blocks, ...) AscendC::tikicpulib::Run<&kernel>(&kernel, #kernel, blocks, __VA_ARGS__)
