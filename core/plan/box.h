// Box: a rectangular piece of a tensor of any number of dims, and flat ranges as boxes. No memory, no ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

using Shape = std::vector<int64_t>;

int64_t Elements(const Shape& shape);       // 1 for a scalar
Shape RowMajorStrides(const Shape& shape);  // in elements
std::string ShapeText(const Shape& shape);  // "[4, 8]"

struct Box {
  Shape offset;
  Shape extent;

  int64_t elements() const { return Elements(extent); }
  bool operator==(const Box&) const = default;
};

std::string ToText(const Box& box);  // "[0:4, 8:16]"

// What two boxes of one tensor share; nothing if they are disjoint.
std::optional<Box> Intersect(const Box& a, const Box& b);

struct FlatPiece {
  Box box;
  int64_t begin = 0;  // flat index of the box's first element in the tensor; the box is one contiguous run
};

// The elements [begin, end) of a row-major tensor as boxes in ascending order: at most 2 dims - 1 of them.
std::vector<FlatPiece> FlatRangeBoxes(const Shape& shape, int64_t begin, int64_t end);

}  // namespace trireme
