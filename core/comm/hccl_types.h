// Our element types and reductions as HCCL's. A type that HCCL lacks can still be moved, as bytes.
#pragma once

#include "core/plan/dtype.h"
#include "hccl/hccl.h"

namespace trireme {

enum class ReduceOp { kSum, kProd, kMax, kMin };

// Every DType can be moved; which of them can be reduced depends on HCCL (fp64 and uint8 cannot).
HcclDataType ToHccl(DType dtype);
HcclReduceOp ToHccl(ReduceOp op);

}  // namespace trireme
