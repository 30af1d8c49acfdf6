// Arithmetic on boxes.
#include "core/plan/box.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {

int64_t Elements(const Shape& shape) {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

std::string ShapeText(const Shape& shape) { return "[" + Join(shape) + "]"; }

std::string ToText(const Box& box) {
  std::string text;
  for (size_t dim = 0; dim < box.offset.size(); ++dim) {
    text += Concat(dim == 0 ? "" : ", ", box.offset[dim], ":", box.offset[dim] + box.extent[dim]);
  }
  return "[" + text + "]";
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  TRIREME_CHECK(a.offset.size() == b.offset.size()) << ToText(a) << " and " << ToText(b);
  Box common = a;
  for (size_t dim = 0; dim < a.offset.size(); ++dim) {
    const int64_t end = std::min(a.offset[dim] + a.extent[dim], b.offset[dim] + b.extent[dim]);
    common.offset[dim] = std::max(a.offset[dim], b.offset[dim]);
    common.extent[dim] = end - common.offset[dim];
    if (common.extent[dim] <= 0) return std::nullopt;
  }
  return common;
}

std::vector<FlatPiece> FlatRangeBoxes(const Shape& shape, int64_t begin, int64_t end) {
  const int64_t total = Elements(shape);
  if (begin < 0 || begin > end || end > total) {
    throw InputError("flat range ", begin, " to ", end, " is not within ", total, " elements of shape ",
                     ShapeText(shape));
  }
  const Shape strides = RowMajorStrides(shape);
  std::vector<FlatPiece> pieces;
  while (begin < end) {
    // The largest run from here that is a box: whole rows of the slowest dim whose boundary we are at.
    size_t dim = 0;
    while (dim < shape.size() && (begin % strides[dim] != 0 || end - begin < strides[dim])) ++dim;
    FlatPiece piece = {{Shape(shape.size(), 0), Shape(shape.size(), 1)}, begin};
    for (size_t i = 0; i < shape.size(); ++i) piece.box.offset[i] = begin / strides[i] % shape[i];
    int64_t run = 1;
    if (dim < shape.size()) {
      const int64_t rows = std::min(shape[dim] - piece.box.offset[dim], (end - begin) / strides[dim]);
      piece.box.extent[dim] = rows;
      for (size_t i = dim + 1; i < shape.size(); ++i) piece.box.extent[i] = shape[i];
      run = rows * strides[dim];
    }
    pieces.push_back(std::move(piece));
    begin += run;
  }
  return pieces;
}

}  // namespace trireme
