// FlatLayout: where the parameters of one layer lie in one flat buffer, and which share of it each rank has.
// Numbers of elements only: no memory, no types, no ranks of a mesh.
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

// The elements of one parameter that a share holds.
struct FlatPart {
  size_t parameter = 0;  // in the order of the layout
  FlatRange elements;    // of the flattened parameter
  int64_t offset = 0;    // of the first one, in the share

  bool operator==(const FlatPart&) const = default;
};

class FlatLayout {
 public:
  // Every parameter begins at a multiple of this many elements: 64 bytes of fp32, a cache line, and what
  // vector units load from.
  static constexpr int64_t kAlignment = 16;

  // Parameters one after the other; the end is padded so that `shares` equal shares are aligned too.
  FlatLayout(const std::vector<int64_t>& sizes, int shares);

  int64_t total() const { return total_; }
  FlatRange Whole() const { return {0, total_}; }
  FlatRange RangeOf(size_t parameter) const { return ranges_.at(parameter); }
  FlatRange ShareOf(int index) const;

  // What lies in `share`, in order; parameters that do not reach into it are left out.
  std::vector<FlatPart> PartsIn(const FlatRange& share) const;

 private:
  std::vector<FlatRange> ranges_;
  int64_t total_ = 0;
  int shares_ = 1;
};

}  // namespace trireme
