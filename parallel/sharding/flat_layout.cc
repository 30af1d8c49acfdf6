#include "parallel/sharding/flat_layout.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/rounding.h"

namespace trireme {

FlatLayout::FlatLayout(const std::vector<int64_t>& sizes, int shards) : shards_(shards) {
  TRIREME_CHECK(shards > 0) << shards << " shards";
  int64_t end = 0;
  for (int64_t size : sizes) {
    const int64_t begin = RoundUp(end, kAlignment);
    end = begin + size;
    ranges_.push_back({begin, end});
  }
  total_ = RoundUp(end, kAlignment * shards);
  gaps_ = std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) < total_;
}

FlatRange FlatLayout::ShardAt(int index) const {
  TRIREME_CHECK(index >= 0 && index < shards_) << "shard " << index << " of " << shards_;
  const int64_t size = total_ / shards_;
  return {index * size, (index + 1) * size};
}

std::vector<FlatPart> FlatLayout::PartsIn(const FlatRange& shard) const {
  std::vector<FlatPart> parts;
  for (size_t parameter = 0; parameter < ranges_.size(); ++parameter) {
    const FlatRange& range = ranges_[parameter];
    const int64_t begin = std::max(range.begin, shard.begin), end = std::min(range.end, shard.end);
    if (begin >= end) continue;
    parts.push_back({parameter, {begin - range.begin, end - range.begin}, begin - shard.begin});
  }
  return parts;
}

}  // namespace trireme
