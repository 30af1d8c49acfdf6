// HCCL communicators over NCCL's: creation, queries, destruction.
#include "providers/cuda/communicator.h"

#include <cstring>
#include <memory>
#include <string>

#include "providers/cuda/error.h"

namespace trireme_cuda {

HcclResult Refuse(HcclResult code, const char* text) {
  CudaProviderError(text);
  return code;
}

HcclResult HcclCode(ncclResult_t code, const char* function, ncclComm_t comm) {
  if (code == ncclSuccess || code == ncclInProgress) return HCCL_SUCCESS;
  const Nccl& nccl = TheNccl();
  CudaProviderError(
      (std::string(function) + ": " + nccl.GetErrorString(code) + ": " + nccl.GetLastError(comm)).c_str());
  switch (code) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return HCCL_E_PARA;
    case ncclRemoteError:
      return HCCL_E_REMOTE;
    case ncclSystemError:
      return HCCL_E_SYSCALL;
    case ncclUnhandledCudaError:
      return HCCL_E_RUNTIME;
    default:
      return HCCL_E_INTERNAL;
  }
}

Elements ElementsOf(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return {ncclInt8, 1, 1};
    case HCCL_DATA_TYPE_UINT8:
      return {ncclUint8, 1, 1};
    case HCCL_DATA_TYPE_INT32:
      return {ncclInt32, 1, 4};
    case HCCL_DATA_TYPE_UINT32:
      return {ncclUint32, 1, 4};
    case HCCL_DATA_TYPE_INT64:
      return {ncclInt64, 1, 8};
    case HCCL_DATA_TYPE_UINT64:
      return {ncclUint64, 1, 8};
    case HCCL_DATA_TYPE_FP16:
      return {ncclFloat16, 1, 2};
    case HCCL_DATA_TYPE_BFP16:
      return {ncclBfloat16, 1, 2};
    case HCCL_DATA_TYPE_FP32:
      return {ncclFloat32, 1, 4};
    case HCCL_DATA_TYPE_FP64:
      return {ncclFloat64, 1, 8};
    default:  // int16 and uint16
      return {ncclUint8, 2, 2, false};
  }
}

ncclRedOp_t ReductionOf(HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_PROD:
      return ncclProd;
    case HCCL_REDUCE_MAX:
      return ncclMax;
    case HCCL_REDUCE_MIN:
      return ncclMin;
    default:
      return ncclSum;
  }
}

}  // namespace trireme_cuda

using namespace trireme_cuda;

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* root_info) {
  const Nccl& nccl = TheNccl();
  if (!nccl.missing.empty()) return Refuse(HCCL_E_NOT_FOUND, nccl.missing.c_str());
  ncclUniqueId id;
  const HcclResult code = HcclCode(nccl.GetUniqueId(&id), "ncclGetUniqueId");
  static_assert(sizeof id <= HCCL_ROOT_INFO_BYTES);
  std::memcpy(root_info->internal, &id, sizeof id);
  return code;
}

// NCCL sums in the same order whenever the same ranks make the same call, so `deterministic` needs nothing;
// NCCL sizes its own buffers (NCCL_BUFFSIZE).
HcclResult HcclCommInitRootInfoConfig(uint32_t size, const HcclRootInfo* root_info, uint32_t rank, HcclCommConfig*,
                                      HcclComm* comm) {
  const Nccl& nccl = TheNccl();
  if (!nccl.missing.empty()) return Refuse(HCCL_E_NOT_FOUND, nccl.missing.c_str());
  auto made = std::make_unique<Communicator>();
  made->size = static_cast<int>(size);
  made->rank = static_cast<int>(rank);
  ncclUniqueId id;
  std::memcpy(&id, root_info->internal, sizeof id);
  if (AclCode(cudaMalloc(&made->token, sizeof(float)), "cudaMalloc") != ACL_SUCCESS ||
      AclCode(cudaMemset(made->token, 0, sizeof(float)), "cudaMemset") != ACL_SUCCESS) {
    return HCCL_E_MEMORY;
  }
  const HcclResult code = HcclCode(nccl.CommInitRank(&made->nccl, made->size, id, made->rank), "ncclCommInitRank");
  if (code == HCCL_SUCCESS) *comm = made.release();
  return code;
}

HcclResult HcclCommDestroy(HcclComm comm) {
  const std::unique_ptr<Communicator> owned(static_cast<Communicator*>(comm));
  static_cast<void>(cudaFree(owned->token));
  return HcclCode(TheNccl().CommDestroy(owned->nccl), "ncclCommDestroy");
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* failure) {
  ncclResult_t code = ncclSuccess;
  const HcclResult asked = HcclCode(TheNccl().CommGetAsyncError(Of(comm).nccl, &code), "ncclCommGetAsyncError");
  *failure = HcclCode(code, "communicator", Of(comm).nccl);
  return asked;
}

const char* HcclGetErrorString(HcclResult code) {
  return code == HCCL_SUCCESS ? "no error" : "an NCCL error; aclGetRecentErrMsg has its text";
}

}  // extern "C"
