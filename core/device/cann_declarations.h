// Functions that CANN's libraries export but the pinned headers do not declare yet. Nothing else: whatever
// the headers declare is used from there.
#pragma once

#include <cstdint>

#include "acl/acl.h"
#include "hccl/hccl.h"

extern "C" {

// Runs `function` on a thread of the runtime when the stream reaches it; it must not call ACL.
aclError aclrtLaunchHostFunc(aclrtStream stream, void (*function)(void*), void* argument);

HcclResult HcclCommInitRootInfoConfig(uint32_t rank_count, const HcclRootInfo* root_info, uint32_t rank,
                                      HcclCommConfig* config, HcclComm* comm);
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);
const char* HcclGetErrorString(HcclResult code);

}  // extern "C"
