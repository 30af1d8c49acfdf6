// PackedWeight: a frozen weight of this rank in 4 bits (core/packing/). Decoded for each product by ops/dequantise. Who
// allocated its bytes is not specified here.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/packing/packed_parts.h"

namespace trireme {

class PackedWeight {
 public:
  // shape: of the rank's tensor; type: what it decodes to.
  PackedWeight(PackedParts parts, Shape shape, at::ScalarType type);

  const PackedParts& parts() const { return parts_; }
  const Shape& shape() const { return shape_; }
  at::ScalarType type() const { return type_; }
  // [bytes] uint8; set once, by the owner of the memory.
  at::Tensor bytes;

 private:
  const PackedParts parts_;
  const Shape shape_;
  const at::ScalarType type_;
};

}  // namespace trireme
