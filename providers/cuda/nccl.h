// NCCL's functions as this provider calls them. The library is loaded with the first communicator, so
// that a single rank does not need it. If NCCL's own header is usable, a wrong signature does not compile;
// otherwise the few names, stable since NCCL 2.10, are declared here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#if __has_include(<nccl.h>) && __has_include(<nv/target>)  // needed by NCCL's header; some packages lack it
#include <nccl.h>
#else
extern "C" {
typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;
typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;
typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
} ncclDataType_t;
ncclResult_t ncclGetUniqueId(ncclUniqueId*);
ncclResult_t ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
const char* ncclGetErrorString(ncclResult_t);
const char* ncclGetLastError(ncclComm_t);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
}
#endif

namespace trireme_cuda {

struct Nccl {
  std::string missing;  // why it is not available; the pointers are then null

#define TRIREME_NCCL_FUNCTIONS(X) \
  X(GetUniqueId)                  \
  X(CommInitRank)                 \
  X(CommDestroy)                  \
  X(CommGetAsyncError)            \
  X(GetErrorString)               \
  X(GetLastError)                 \
  X(GroupStart) X(GroupEnd) X(AllReduce) X(Broadcast) X(Reduce) X(ReduceScatter) X(AllGather) X(Send) X(Recv)
#define TRIREME_NCCL_POINTER(name) decltype(&nccl##name) name = nullptr;
  TRIREME_NCCL_FUNCTIONS(TRIREME_NCCL_POINTER)
#undef TRIREME_NCCL_POINTER
};

// Loaded at the first call.
const Nccl& TheNccl();

}  // namespace trireme_cuda
