// FlatLayout: where the parameters of one layer are in one flat buffer, and which shard of it each rank has.
// Counts elements only: no memory, no dtypes, no mesh ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

struct FlatRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const FlatRange&) const = default;
};

// The elements of one parameter that a shard holds.
struct FlatPart {
  size_t parameter = 0;  // index in the layout's order
  FlatRange elements;    // of the flattened parameter
  int64_t offset = 0;    // of the first element, within the shard

  bool operator==(const FlatPart&) const = default;
};

class FlatLayout {
 public:
  // Every parameter starts at a multiple of this many elements: 64 bytes of fp32, a cache line and a vector
  // load.
  static constexpr int64_t kAlignment = 16;

  // Consecutive parameters; the end is padded so that `shards` equal shards are aligned as well.
  FlatLayout(const std::vector<int64_t>& sizes, int shards);

  int64_t total() const { return total_; }
  bool has_gaps() const { return gaps_; }  // elements of no parameter
  FlatRange Whole() const { return {0, total_}; }
  FlatRange RangeOf(size_t parameter) const { return ranges_.at(parameter); }
  FlatRange ShardAt(int index) const;

  // The parts of parameters within `shard`, in order; other parameters are omitted.
  std::vector<FlatPart> PartsIn(const FlatRange& shard) const;

 private:
  std::vector<FlatRange> ranges_;
  int64_t total_ = 0;
  bool gaps_ = false;
  int shards_ = 1;
};

}  // namespace trireme
