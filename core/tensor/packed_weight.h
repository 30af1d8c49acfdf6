// PackedWeight: a frozen weight of this rank in 4 bits (core/packing/), decoded for each product into memory that the next one
// uses again. Who allocated its bytes is not specified here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/packing/packed_parts.h"

namespace trireme {

class PackedWeight {
 public:
  // shape: of the rank's tensor; type: what it decodes to.
  PackedWeight(PackedParts parts, Shape shape, at::ScalarType type);

  const PackedParts& parts() const { return parts_; }
  at::ScalarType type() const { return type_; }
  // [bytes] uint8; set once, by the owner of the memory.
  at::Tensor bytes;

  at::Tensor Decode() const;
  at::Tensor Decode(int64_t index) const;  // of a stack, without its first dim

 private:
  at::Tensor DecodePart(int64_t begin, int64_t end, const Shape& shape) const;

  const PackedParts parts_;
  const Shape shape_;
  const at::ScalarType type_;
};

}  // namespace trireme
