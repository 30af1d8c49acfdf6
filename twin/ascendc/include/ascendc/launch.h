// What a generated launch function does: packs the arguments and queues the blocks on the stream; those of
// the checked build if TWIN_CHECKED=1 is set, strict about automatic synchronisation if TWIN_AUTO_SYNC=0 is.
// Both are read at each launch, so a program may change them.
#pragma once

#include <cstdlib>
#include <cstring>

#include "ascendc/run.h"
#include "twin/launch.h"

namespace twin::ascendc {

struct Kernel {
  const char* name;
  TwinKernelBody fast, checked;
};

inline bool CheckedWanted() {
  const char* value = std::getenv("TWIN_CHECKED");
  return value != nullptr && std::strcmp(value, "") != 0 && std::strcmp(value, "0") != 0;
}

inline AutoSync AutoSyncWanted() {
  const char* value = std::getenv("TWIN_AUTO_SYNC");
  if (value == nullptr || std::strcmp(value, "") == 0) return AutoSync::kAsBuilt;
  return std::strcmp(value, "0") == 0 ? AutoSync::kOff : AutoSync::kOn;
}

template <typename... Args>
uint32_t Launch(const Kernel& kernel, uint32_t blocks, void* stream, Args... args) {
  static_assert((std::is_trivially_copyable_v<Args> && ...),
                "kernel arguments must be addresses, numbers or plain structs");
  const Packed<Args...> packed{{.auto_sync = AutoSyncWanted()}, {args...}};
  return static_cast<uint32_t>(twinLaunchKernel(
      kernel.name, blocks, stream, CheckedWanted() ? kernel.checked : kernel.fast, &packed, sizeof packed));
}

// With the argument types that the kernel itself declares.
template <typename... Args>
uint32_t LaunchLike(void (*)(Args...), const Kernel& kernel, uint32_t blocks, void* stream,
                    std::type_identity_t<Args>... args) {
  return Launch<Args...>(kernel, blocks, stream, args...);
}

}  // namespace twin::ascendc
