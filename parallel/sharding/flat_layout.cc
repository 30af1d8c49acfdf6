#include "parallel/sharding/flat_layout.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/rounding.h"

namespace trireme {

FlatLayout::FlatLayout(const std::vector<int64_t>& sizes, int shares) : shares_(shares) {
  TRIREME_CHECK(shares > 0) << shares << " shares";
  int64_t end = 0;
  for (int64_t size : sizes) {
    const int64_t begin = RoundUp(end, kAlignment);
    end = begin + size;
    ranges_.push_back({begin, end});
  }
  total_ = RoundUp(end, kAlignment * shares);
  gaps_ = std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) < total_;
}

FlatRange FlatLayout::ShareOf(int index) const {
  TRIREME_CHECK(index >= 0 && index < shares_) << "share " << index << " of " << shares_;
  const int64_t size = total_ / shares_;
  return {index * size, (index + 1) * size};
}

std::vector<FlatPart> FlatLayout::PartsIn(const FlatRange& share) const {
  std::vector<FlatPart> parts;
  for (size_t parameter = 0; parameter < ranges_.size(); ++parameter) {
    const FlatRange& range = ranges_[parameter];
    const int64_t begin = std::max(range.begin, share.begin), end = std::min(range.end, share.end);
    if (begin >= end) continue;
    parts.push_back({parameter, {begin - range.begin, end - range.begin}, begin - share.begin});
  }
  return parts;
}

}  // namespace trireme
