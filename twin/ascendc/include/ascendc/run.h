// How a kernel's blocks run: its arguments are packed after the state that the launch shares, and unpacked
// for each block. Used by the launch functions that cmake generates and by tikicpulib.h.
#pragma once

#include <new>
#include <tuple>
#include <type_traits>

#include "ascendc/core.h"

namespace twin::ascendc {

template <typename... Args>
struct Packed {
  LaunchShared shared;
  std::tuple<Args...> args;
};

template <typename... Args>
Packed<Args...> PackedFor(void (*)(Args...));

// ascendc_compile_options(target --cce-auto-sync=off) sets it.
#ifdef TWIN_ASCENDC_NO_AUTO_SYNC
constexpr bool kBuiltWithAutoSync = false;
#else
constexpr bool kBuiltWithAutoSync = true;
#endif

// One block of `kernel`, whose packed arguments are at `args`.
template <auto kernel, bool checked>
void RunBlock(const char* name, uint32_t block, uint32_t blocks, const void* args) {
  using Given = decltype(PackedFor(kernel));
  // The launch owns this memory and shares it with all of its blocks.
  auto* given = static_cast<Given*>(const_cast<void*>(args));
  BeginBlock(name, block, blocks, &given->shared, checked, kBuiltWithAutoSync);
  struct Leave {
    ~Leave() { LeaveBlock(); }
  } leave;
  std::apply(kernel, given->args);
  EndBlock();
}

}  // namespace twin::ascendc
