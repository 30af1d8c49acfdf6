// The HcclComm of this provider, and the mapping of NCCL's codes to HCCL's.
#pragma once

#include "hccl/hccl.h"
#include "providers/cuda/nccl.h"

namespace trireme_cuda {

struct Communicator {
  ncclComm_t nccl = nullptr;
  int rank = 0;
  int size = 0;
  void* token = nullptr;  // one element of device memory, which a barrier reduces
};

inline Communicator& Of(HcclComm comm) { return *static_cast<Communicator*>(comm); }
inline cudaStream_t Cuda(aclrtStream stream) { return static_cast<cudaStream_t>(stream); }

// On failure, sets the text of aclGetRecentErrMsg.
HcclResult HcclCode(ncclResult_t code, const char* function, ncclComm_t comm = nullptr);
HcclResult Refuse(HcclResult code, const char* text);

// How NCCL counts elements of HCCL's types. Types that it does not know are moved as bytes, and not reduced.
struct Elements {
  ncclDataType_t type = ncclUint8;
  size_t units = 1;  // of `type` per element
  size_t bytes = 1;  // per element
  bool reduces = true;
};
Elements ElementsOf(HcclDataType type);
ncclRedOp_t ReductionOf(HcclReduceOp op);

}  // namespace trireme_cuda
