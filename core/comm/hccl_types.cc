#include "core/comm/hccl_types.h"

#include "core/base/error.h"

namespace trireme {

HcclDataType ToHccl(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return HCCL_DATA_TYPE_FP64;
    case DType::kFp32:
      return HCCL_DATA_TYPE_FP32;
    case DType::kFp16:
      return HCCL_DATA_TYPE_FP16;
    case DType::kBf16:
      return HCCL_DATA_TYPE_BFP16;
    case DType::kInt64:
      return HCCL_DATA_TYPE_INT64;
    case DType::kInt32:
      return HCCL_DATA_TYPE_INT32;
    case DType::kInt16:
      return HCCL_DATA_TYPE_INT16;
    case DType::kInt8:
      return HCCL_DATA_TYPE_INT8;
    case DType::kFp8E4M3:
    case DType::kUint8:
    case DType::kBool:
      return HCCL_DATA_TYPE_UINT8;
  }
  TRIREME_CHECK(false) << "dtype " << static_cast<int>(dtype);
  return HCCL_DATA_TYPE_RESERVED;
}

HcclReduceOp ToHccl(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return HCCL_REDUCE_SUM;
    case ReduceOp::kProd:
      return HCCL_REDUCE_PROD;
    case ReduceOp::kMax:
      return HCCL_REDUCE_MAX;
    case ReduceOp::kMin:
      return HCCL_REDUCE_MIN;
  }
  TRIREME_CHECK(false) << "reduction " << static_cast<int>(op);
  return HCCL_REDUCE_RESERVED;
}

}  // namespace trireme
