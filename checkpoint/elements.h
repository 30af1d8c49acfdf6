// Elements on their way between memory and files: boxes copied between strided places, with a change of the
// element type where it is wanted. Rounds to the nearest, ties to even, as torch does. No files, no tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

// Whether Convert knows how; a type always converts to itself.
bool CanConvert(DType from, DType to);

// `count` elements that lie one after the other.
void Convert(DType from, const void* source, DType to, void* target, size_t count);

// How many of `count` elements are infinite or no number; 0 for types that are no floats.
int64_t CountNotFinite(DType dtype, const void* data, size_t count);

// Where a box lies: its first element, and how far apart, in elements, neighbours along each dim are.
struct Place {
  DType dtype = DType::kFp32;
  void* data = nullptr;
  Shape strides;
};
struct ConstPlace {
  DType dtype = DType::kFp32;
  const void* data = nullptr;
  Shape strides;
};

void CopyBox(const Shape& extent, const ConstPlace& source, const Place& target);

// Whether the box's elements lie one after the other, row-major.
bool IsContiguous(const Shape& extent, const Shape& strides);

// Moves `data` by `elements` of the type.
inline void* Advance(void* data, DType dtype, int64_t elements) {
  return static_cast<std::byte*>(data) + elements * ByteSize(dtype);
}
inline const void* Advance(const void* data, DType dtype, int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * ByteSize(dtype);
}

}  // namespace trireme
