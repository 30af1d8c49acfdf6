// HCCL's public header as programs include it: the wheel's header, plus the functions that HCCL exports but
// the wheel's header does not declare. Contains no twin extensions.
#pragma once

#include_next <hccl/hccl.h>

#include "hccl/hccl_types_newer.h"

#ifdef __cplusplus
extern "C" {
#endif

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      HcclCommConfig* config, HcclComm* comm);
HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm);
HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm);
HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank);
HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize);
HcclResult HcclGetConfig(HcclConfig config, union HcclConfigValue* configValue);
HcclResult HcclCommSuspend(HcclComm comm);
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
                          HcclDataType recvType, HcclComm comm, aclrtStream stream);
const char* HcclGetErrorString(HcclResult code);

#ifdef __cplusplus
}
#endif
