// How a kernel declares which cores it runs on, and how it reads its tiling data: a struct that the host put
// into global memory, or one argument by value. Kernels of vector cores or of cube cores, not of both.
#pragma once

#include <cstring>
#include <type_traits>

#include "ascendc/core.h"
#include "ascendc/macros.h"

namespace twin::ascendc {
enum KernelTaskType {
  kAivOnly,
  kAicOnly,
  kMixAivOneZero,
  kMixAicOneZero,
  kMixAicOneOne,
  kMixAicOneTwo,
};
template <KernelTaskType type>
inline void RunsOn() {
  static_assert(type != kMixAicOneOne && type != kMixAicOneTwo,
                "a block on the host is one core: KERNEL_TYPE_AIV_ONLY, _AIC_ONLY, _MIX_AIV_1_0 or _MIX_AIC_1_0");
  ThisCore().cube = type == kAicOnly || type == kMixAicOneZero;
}
template <typename Tiling>
Tiling ReadTiling(const void* from) {
  static_assert(std::is_trivially_copyable_v<Tiling>, "tiling data is copied as bytes");
  Tiling tiling;
  std::memcpy(&tiling, from, sizeof tiling);
  return tiling;
}
}  // namespace twin::ascendc

#define KERNEL_TYPE_AIV_ONLY twin::ascendc::kAivOnly
#define KERNEL_TYPE_AIC_ONLY twin::ascendc::kAicOnly
#define KERNEL_TYPE_MIX_AIV_1_0 twin::ascendc::kMixAivOneZero
#define KERNEL_TYPE_MIX_AIC_1_0 twin::ascendc::kMixAicOneZero
#define KERNEL_TYPE_MIX_AIC_1_1 twin::ascendc::kMixAicOneOne
#define KERNEL_TYPE_MIX_AIC_1_2 twin::ascendc::kMixAicOneTwo
#define KERNEL_TASK_TYPE_DEFAULT(type) twin::ascendc::RunsOn<type>()
#define KERNEL_TASK_TYPE(key, type) \
  if (twin::ascendc::MayHaveTilingKey(key)) twin::ascendc::RunsOn<type>()

// On a device the operator's build determines the struct; here the kernel names it before reading. It gets
// its own copy, which it may modify.
struct write_REGISTER_TILING_DEFAULT_before_GET_TILING_DATA;
#define REGISTER_TILING_DEFAULT(type) using write_REGISTER_TILING_DEFAULT_before_GET_TILING_DATA = type
#define GET_TILING_DATA(name, from) \
  GET_TILING_DATA_WITH_STRUCT(write_REGISTER_TILING_DEFAULT_before_GET_TILING_DATA, name, from)
#define GET_TILING_DATA_WITH_STRUCT(type, name, from) [[maybe_unused]] type name = twin::ascendc::ReadTiling<type>(from)
#define GET_TILING_DATA_MEMBER(type, member, name, from) \
  [[maybe_unused]] auto name = twin::ascendc::ReadTiling<type>(from).member
#define TILING_KEY_IS(key) (twin::ascendc::TilingKeyIs(key, __FILE__, __LINE__))
