// Allocates ranges of [0, bytes): best fit, coalescing with neighbours on free. Pure bookkeeping over
// offsets; touches no memory and takes no lock.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace twin {

class OffsetAllocator {
 public:
  struct Range {
    size_t begin = 0;
    size_t end = 0;
    size_t bytes() const { return end - begin; }
  };

  static constexpr size_t kGranule = 64;

  explicit OffsetAllocator(size_t bytes);

  // `alignment` is a power of two, at least kGranule. Empty if no free range is long enough.
  std::optional<size_t> Allocate(size_t bytes, size_t alignment);

  // Frees a range that Allocate returned and returns the coalesced free range it is now part of. Empty for
  // any other offset.
  std::optional<Range> Free(size_t offset);

  // The live range that contains `offset`.
  std::optional<Range> Find(size_t offset) const;

  void Clear();

  size_t live_ranges() const { return live_.size(); }
  size_t free_ranges() const { return free_.size(); }

 private:
  void AddFree(Range range);
  void RemoveFree(std::map<size_t, size_t>::iterator range);

  size_t bytes_;
  std::map<size_t, size_t> live_;                  // begin -> end
  std::map<size_t, size_t> free_;                  // begin -> end; never adjacent
  std::set<std::pair<size_t, size_t>> by_length_;  // (length, begin) of free_
};

}  // namespace twin
