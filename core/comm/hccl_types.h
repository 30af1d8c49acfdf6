// Our element types and reductions as HCCL's. What HCCL has no type for, and may still be moved, goes as
// bytes.
#pragma once

#include "core/plan/dtype.h"
#include "hccl/hccl.h"

namespace trireme {

enum class ReduceOp { kSum, kProd, kMax, kMin };

// Every DType can be moved; which of them can be reduced is HCCL's to say (fp64 and uint8 cannot).
HcclDataType ToHccl(DType dtype);
HcclReduceOp ToHccl(ReduceOp op);

}  // namespace trireme
