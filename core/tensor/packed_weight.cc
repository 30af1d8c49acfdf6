#include "core/tensor/packed_weight.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {

PackedWeight::PackedWeight(PackedParts parts, Shape shape, at::ScalarType type)
    : parts_(std::move(parts)), shape_(std::move(shape)), type_(type) {
  TRIREME_CHECK(type == at::kFloat || type == at::kBFloat16) << "packed weights decode to fp32 or bf16";
}

}  // namespace trireme
