// Copies boxes of elements between strided buffers in memory and files, converting the dtype if needed.
// Rounds to nearest, ties to even, as torch does. No files, no tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

// Whether Convert supports it; every dtype converts to itself.
bool CanConvert(DType from, DType to);

// `count` contiguous elements.
void Convert(DType from, const void* source, DType to, void* target, size_t count);

// How many of `count` elements are infinite or nan; 0 for dtypes that are not floating point.
int64_t CountNotFinite(DType dtype, const void* data, size_t count);

// Where a box is: its first element, and the stride of each dim, in elements.
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

// Whether the box's elements are contiguous, row-major.
bool IsContiguous(const Shape& extent, const Shape& strides);

// Moves `data` by `elements` of the dtype.
inline void* Advance(void* data, DType dtype, int64_t elements) {
  return static_cast<std::byte*>(data) + elements * ByteSize(dtype);
}
inline const void* Advance(const void* data, DType dtype, int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * ByteSize(dtype);
}

}  // namespace trireme
