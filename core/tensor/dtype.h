// Our element types as torch's, and back.
#pragma once

#include <c10/core/ScalarType.h>

#include "core/plan/dtype.h"

namespace trireme {

at::ScalarType ToTorch(DType dtype);
DType FromTorch(at::ScalarType type);  // a type that is not ours is a bug

}  // namespace trireme
