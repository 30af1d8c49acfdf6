// What a copy from the buffer does to global memory: overwrite, add, max or min, per element. Blocks run
// concurrently, so each element is updated atomically.
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

#include "ascendc/policy.h"
#include "ascendc/types.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace atomics {

template <typename T>
struct Bits {
  using Type = std::conditional_t<
      sizeof(T) == 4, uint32_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 8, uint64_t, uint8_t>>>;
};
// In the type in which the sum is computed.
template <typename T>
auto Wide(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(x);
  } else {
    return static_cast<float>(x);
  }
}
template <typename T>
T Combined(twin::ascendc::Atomic kind, T old, T given) {
  const auto a = Wide(old), b = Wide(given);
  switch (kind) {
    case twin::ascendc::Atomic::kAdd:
      return static_cast<T>(a + b);
    case twin::ascendc::Atomic::kMax:
      return static_cast<T>(a > b ? a : b);
    case twin::ascendc::Atomic::kMin:
      return static_cast<T>(a < b ? a : b);
    case twin::ascendc::Atomic::kNone:
      break;
  }
  return given;
}

template <typename T>
void Store(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  const twin::ascendc::Atomic kind = twin::ascendc::ThisCore().atomic;
  if (kind == twin::ascendc::Atomic::kNone) {
    std::memcpy(to, from, bytes);
    return;
  }
  using Raw = typename Bits<T>::Type;
  if constexpr (!std::is_same_v<T, int4b_t>) {
    for (uint64_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
      T given;
      std::memcpy(&given, from + at, sizeof(T));
      std::atomic_ref<Raw> cell(*reinterpret_cast<Raw*>(to + at));
      Raw old = cell.load(std::memory_order_relaxed);
      while (!cell.compare_exchange_weak(old, std::bit_cast<Raw>(Combined(kind, std::bit_cast<T>(old), given)))) {
      }
    }
  }
}

}  // namespace atomics

template <typename T>
void SetAtomicAdd() {
  twin::ascendc::ThisCore().atomic = twin::ascendc::Atomic::kAdd;
}
template <typename T>
void SetAtomicMax() {
  twin::ascendc::ThisCore().atomic = twin::ascendc::Atomic::kMax;
}
template <typename T>
void SetAtomicMin() {
  twin::ascendc::ThisCore().atomic = twin::ascendc::Atomic::kMin;
}
inline void SetAtomicNone() { twin::ascendc::ThisCore().atomic = twin::ascendc::Atomic::kNone; }

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
