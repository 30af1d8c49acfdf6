// Best fit over a set of free ranges ordered by length.
#include "twin/acl/runtime/offset_allocator.h"

#include "twin/common/rounding.h"

namespace twin {
namespace {

// A range just long enough may not fit once aligned; after this many tries, take one that surely does.
constexpr int kTries = 16;

}  // namespace

OffsetAllocator::OffsetAllocator(size_t bytes) : bytes_(bytes / kGranule * kGranule) { Clear(); }

void OffsetAllocator::Clear() {
  live_.clear();
  free_.clear();
  by_length_.clear();
  if (bytes_ > 0) AddFree({0, bytes_});
}

void OffsetAllocator::AddFree(Range range) {
  free_.emplace(range.begin, range.end);
  by_length_.emplace(range.bytes(), range.begin);
}

void OffsetAllocator::RemoveFree(std::map<size_t, size_t>::iterator range) {
  by_length_.erase({range->second - range->first, range->first});
  free_.erase(range);
}

std::optional<size_t> OffsetAllocator::Allocate(size_t bytes, size_t alignment) {
  if (bytes == 0 || bytes > bytes_) return std::nullopt;
  const size_t wanted = RoundUp(bytes, kGranule);
  auto candidate = by_length_.lower_bound({wanted, 0});
  for (int tries = 0; candidate != by_length_.end(); ++candidate, ++tries) {
    if (tries == kTries) candidate = by_length_.lower_bound({wanted + alignment, 0});
    if (candidate == by_length_.end()) break;
    const size_t begin = RoundUp(candidate->second, alignment);
    if (begin + wanted > candidate->second + candidate->first) continue;
    const auto range = free_.find(candidate->second);
    const Range whole{range->first, range->second};
    RemoveFree(range);
    if (begin > whole.begin) AddFree({whole.begin, begin});
    if (begin + wanted < whole.end) AddFree({begin + wanted, whole.end});
    live_.emplace(begin, begin + wanted);
    return begin;
  }
  return std::nullopt;
}

std::optional<OffsetAllocator::Range> OffsetAllocator::Free(size_t offset) {
  const auto found = live_.find(offset);
  if (found == live_.end()) return std::nullopt;
  Range joined{found->first, found->second};
  live_.erase(found);
  const auto after = free_.lower_bound(joined.begin);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->second == joined.begin) {
      joined.begin = before->first;
      RemoveFree(before);
    }
  }
  if (after != free_.end() && after->first == joined.end) {
    joined.end = after->second;
    RemoveFree(after);
  }
  AddFree(joined);
  return joined;
}

std::optional<OffsetAllocator::Range> OffsetAllocator::Find(size_t offset) const {
  auto after = live_.upper_bound(offset);
  if (after == live_.begin()) return std::nullopt;
  --after;
  if (offset >= after->second) return std::nullopt;
  return Range{after->first, after->second};
}

}  // namespace twin
