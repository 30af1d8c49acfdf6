// The HCCL and ACL functions that Huawei's libraries export but the wheel's headers do not declare. Declared
// here a second time on purpose: the tests call what a program written for CANN would call, not what the
// twin's own headers declare.
#pragma once

#include <string>

#include "acl/acl.h"
#include "hccl/hccl.h"

extern "C" {
HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      HcclCommConfig* config, HcclComm* comm);
HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm);
HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm);
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);
const char* HcclGetErrorString(HcclResult code);
HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank);
HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize);
HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue);
HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
                          HcclDataType recvType, HcclComm comm, aclrtStream stream);
aclError aclrtLaunchHostFunc(aclrtStream stream, void (*fn)(void*), void* args);
}

namespace conformance {

// What a rank outside a sub-communicator passes.
inline constexpr uint64_t kNoSubComm = 0xFFFFFFFF;

inline std::string RecentError() {
  const char* text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

}  // namespace conformance
