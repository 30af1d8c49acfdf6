// How a vector function iterates over its operands. By count: contiguous elements. By mask and repeat: 256
// bytes per repeat in eight blocks of 32, strides between blocks and between repeats, and a mask of the lanes
// that are written. Both end in one loop over contiguous elements.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "ascendc/loops.h"
#include "ascendc/tensor.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {
namespace lanes {

namespace loops = twin::ascendc::loops;

// Which lanes of a repeat are active; or, if `counts`, how many elements over all repeats.
struct Mask {
  uint64_t bits[2];
  bool counts = false;
  bool Has(uint64_t lane) const { return (bits[lane / 64] >> (lane % 64) & 1u) != 0; }
  // Of `width` lanes starting at a multiple of it; a power of two.
  bool HasAny(uint64_t first, uint64_t width) const {
    if (width > 64) return (bits[0] | bits[1]) != 0;
    return (bits[first / 64] >> (first % 64) & (~uint64_t{0} >> (64 - width))) != 0;
  }
};

inline Mask First(uint64_t n) {
  const auto ones = [](uint64_t k) { return k >= 64 ? ~uint64_t{0} : (uint64_t{1} << k) - 1; };
  return {{ones(n), n > 64 ? ones(n - 64) : 0}};
}
inline Mask FromRegister() {
  const twin::ascendc::Core& core = twin::ascendc::ThisCore();
  return {{core.mask[0], core.mask[1]}, core.mask_counts};
}
// A mask argument: how many of the first lanes, or one bit per lane.
struct GivenMask {
  template <typename Int>
    requires std::is_integral_v<Int>
  GivenMask(Int lanes) : first(static_cast<uint64_t>(lanes)) {}
  GivenMask(const uint64_t* lane_bits) : bits(lane_bits) {}
  uint64_t first = 0;
  const uint64_t* bits = nullptr;
};
template <bool isSetMask>
Mask Given(const GivenMask& mask) {
  if constexpr (!isSetMask) return FromRegister();
  const bool counts = twin::ascendc::ThisCore().mask_counts;
  if (mask.bits != nullptr) return {{mask.bits[0], mask.bits[1]}, counts};
  if (counts) return {{mask.first, 0}, true};
  return First(mask.first);
}

template <typename T>
struct Operand {
  const LocalTensor<T>& tensor;
  uint32_t block_stride, repeat_stride;  // in units of 32 bytes

  T* Address(uint32_t repeat, uint32_t lane) const {
    const uint64_t byte = BytesOf<T>(lane);
    return reinterpret_cast<T*>(tensor.bytes_begin() + uint64_t{repeat} * repeat_stride * 32 +
                                byte / 32 * block_stride * 32 + byte % 32);
  }
};

constexpr uint32_t kMostLanes = 256;
template <typename T>
constexpr uint32_t kBlockLanes = static_cast<uint32_t>(64 / BytesOf<T>(2));

// Reports the active lanes to the checker, one run at a time.
template <typename T>
void Tell(const Operand<T>& operand, uint32_t repeat, const Mask& mask, uint32_t count, bool write, const char* name,
          Where where) {
  if constexpr (!policy::kChecked) return;
  constexpr uint32_t kBlock = kBlockLanes<T>;
  for (uint32_t lane = 0; lane < count;) {
    uint32_t end = lane;
    while (end < count && end / kBlock == lane / kBlock && mask.Has(end)) ++end;
    if (end > lane) {
      const auto touch = write ? policy::Writes : policy::Reads;
      touch(PIPE_V, operand.Address(repeat, lane), BytesOf<T>(end - lane), name, where);
    }
    lane = std::max(end, lane + 1);
  }
}

template <typename T>
void Collect(const Operand<T>& operand, uint32_t repeat, uint32_t count, T* into) {
  constexpr uint32_t kBlock = kBlockLanes<T>;
  for (uint32_t lane = 0; lane < count; lane += kBlock) {
    std::memcpy(reinterpret_cast<uint8_t*>(into) + BytesOf<T>(lane), operand.Address(repeat, lane),
                BytesOf<T>(std::min(kBlock, count - lane)));
  }
}

// Stores one lane of a repeat's results; a lane of int4b_t leaves the other half of its byte unchanged.
template <typename T>
void PutLane(const Operand<T>& dst, uint32_t repeat, uint32_t lane, const T* results) {
  *dst.Address(repeat, lane) = results[lane];
}
inline void PutLane(const Operand<int4b_t>& dst, uint32_t repeat, uint32_t lane, const int4b_t* results) {
  int8_t& byte = dst.Address(repeat, lane)->pair;
  const int kept = lane % 2 == 0 ? byte & ~15 : byte & 15, wanted = lane % 2 == 0 ? 15 : ~15;
  byte = static_cast<int8_t>(kept | (results[lane / 2].pair & wanted));
}

// How many lanes repeat number `repeat` has, out of `width`; counted masks shrink in the last one.
inline uint32_t ActiveLanes(const Mask& mask, uint32_t repeat, uint32_t width, Mask* lanes) {
  if (!mask.counts) {
    *lanes = mask;
    return width;
  }
  const uint64_t left = mask.bits[0] - std::min<uint64_t>(mask.bits[0], uint64_t{repeat} * width);
  const auto active = static_cast<uint32_t>(std::min<uint64_t>(left, width));
  *lanes = First(active);
  return active;
}
inline uint32_t Repeats(const Mask& mask, uint32_t given, uint32_t width) {
  return mask.counts ? static_cast<uint32_t>((mask.bits[0] + width - 1) / width) : given;
}

// The number of lanes if the mask selects the first ones; -1 otherwise.
inline int64_t FirstOnly(const Mask& mask, uint32_t width) {
  const int ones = std::popcount(mask.bits[0]) + std::popcount(mask.bits[1]);
  const Mask first = First(static_cast<uint64_t>(ones));
  if (mask.bits[0] != first.bits[0] || mask.bits[1] != first.bits[1]) return -1;
  return std::min<int64_t>(ones, width);
}

// Elements that are contiguous within a repeat and from repeat to repeat.
template <typename T>
bool Contiguous(const Operand<T>& operand, uint32_t width) {
  return operand.block_stride == 1 && operand.repeat_stride * 32u == width * sizeof(T);
}
// A loop may write in place, at the positions it reads, but not at others.
template <typename D, typename S>
bool SameOrApart(const D* dst, const S* src, uint64_t n) {
  const auto d = reinterpret_cast<uint64_t>(dst), s = reinterpret_cast<uint64_t>(src);
  return (d == s && sizeof(D) == sizeof(S)) || d + n * sizeof(D) <= s || s + n * sizeof(S) <= d;
}

// One repeat in the general case: all lanes are gathered and computed, and the masked ones written back.
template <typename Loop, typename D, typename... S>
void GatheredRepeat(uint32_t repeat, const Mask& active, uint32_t count, Loop& loop, const Operand<D>& dst,
                    const Operand<S>&... src) {
  D result[kMostLanes];
  Collect(dst, repeat, count, result);
  std::tuple<std::array<S, kMostLanes>...> given;
  std::apply([&](auto&... array) { (Collect(src, repeat, count, array.data()), ...); }, given);
  std::apply([&](auto&... array) { loop(result, array.data()..., count); }, given);
  for (uint32_t lane = 0; lane < count; ++lane) {
    if (active.Has(lane)) PutLane(dst, repeat, lane, result);
  }
}

// loop(dst, srcs..., n) over each repeat's lanes; inactive lanes keep their contents. Contiguous lanes are
// processed in place, over all repeats at once if possible; a loop that counts its repeats (kCounts) gets
// each of them whole.
template <bool kReadsDst, bool kCounts = false, typename Loop, typename D, typename... S>
void ByRepeat(const char* name, const Mask& mask, uint32_t repeat_times, Where where, Loop loop, const Operand<D>& dst,
              const Operand<S>&... src) {
  constexpr uint32_t kWidth = 256 / std::max({sizeof(D), sizeof(S)...});
  constexpr bool kWhole = kCounts || std::is_same_v<D, int4b_t> || (std::is_same_v<S, int4b_t> || ...);
  policy::Aligned(dst.tensor.data(), 32, name, where);
  (policy::Aligned(src.tensor.data(), 32, name, where), ...);
  const uint32_t repeats = Repeats(mask, repeat_times, kWidth);
  const uint64_t all = uint64_t{repeats} * kWidth;
  const bool at_once = !kWhole && !mask.counts && FirstOnly(mask, kWidth) == kWidth && Contiguous(dst, kWidth) &&
                       (Contiguous(src, kWidth) && ...) &&
                       (SameOrApart(dst.tensor.data(), src.tensor.data(), all) && ...);
  const bool in_place = !kWhole && dst.block_stride == 1 && ((src.block_stride == 1) && ...);
  const uint32_t looked_at = at_once && !policy::kChecked ? 0 : repeats;
  for (uint32_t repeat = 0; repeat < looked_at; ++repeat) {
    Mask active{};
    const uint32_t count = ActiveLanes(mask, repeat, kWidth, &active);
    (Tell(src, repeat, active, count, false, name, where), ...);
    if (kReadsDst) Tell(dst, repeat, active, count, false, name, where);
    Tell(dst, repeat, active, count, true, name, where);
    if (at_once) continue;
    const int64_t first = in_place ? FirstOnly(active, count) : -1;
    if (first >= 0 && (SameOrApart(dst.Address(repeat, 0), src.Address(repeat, 0), kWidth) && ...)) {
      loop(dst.Address(repeat, 0), src.Address(repeat, 0)..., static_cast<size_t>(first));
    } else {
      GatheredRepeat(repeat, active, count, loop, dst, src...);
    }
  }
  if (at_once) loop(dst.tensor.data(), src.tensor.data()..., all);
}

// The first `count` elements.
template <bool kReadsDst, typename Loop, typename D, typename... S>
void ByCount(const char* name, int64_t count, Where where, Loop loop, const LocalTensor<D>& dst,
             const LocalTensor<S>&... src) {
  if (count <= 0) return;
  const auto n = static_cast<uint64_t>(count);
  (policy::VectorIn(src, n, name, where), ...);
  if (kReadsDst) policy::VectorIn(dst, n, name, where);
  policy::VectorOut(dst, n, name, where);
  loop(dst.data(), src.data()..., n);
}

}  // namespace lanes
}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
