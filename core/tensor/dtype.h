// Converts between DType and torch's scalar types.
#pragma once

#include <c10/core/ScalarType.h>

#include "core/plan/dtype.h"

namespace trireme {

at::ScalarType ToTorch(DType dtype);
DType FromTorch(at::ScalarType type);  // a type without a DType is a bug

}  // namespace trireme
