// Functions that the torch_npu wheels from 2.7.1.post4 on link and the headers of 2.7.1 do not declare: newer
// ACL functions, the profiler's report functions (Msprof…) and the runtime's older kernel functions (rt…).
// Their names were read from the wheels' symbol tables; CANN keeps some in libraries of their own, the twin
// all in libascendcl. Programs do not include this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl.h"

extern "C" {

// 0: accepted. `aging`: whether a report may be dropped once the profiler's buffer is full.
ACL_FUNC_VISIBILITY int32_t MsprofReportApi(uint32_t aging, const void* api);
ACL_FUNC_VISIBILITY int32_t MsprofReportCompactInfo(uint32_t aging, const void* data, uint32_t bytes);
ACL_FUNC_VISIBILITY int32_t MsprofReportAdditionalInfo(uint32_t aging, const void* data, uint32_t bytes);
ACL_FUNC_VISIBILITY int32_t MsprofRegisterCallback(uint32_t module, void* handler);
ACL_FUNC_VISIBILITY uint64_t MsprofGetHashId(const char* text, size_t length);
ACL_FUNC_VISIBILITY uint64_t MsprofSysCycleTime();

ACL_FUNC_VISIBILITY aclError aclrtBinaryLoadFromData(const void* data, size_t bytes, const void* options,
                                                     aclrtBinHandle* binary);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionAddr(aclrtFuncHandle function, void** cube, void** vector);

// Memory of aclrtMallocPhysical for other processes.
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType type,
                                                             uint64_t flags, uint64_t* shareable);
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(uint64_t shareable, int32_t device,
                                                               aclrtDrvMemHandle* handle);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(uint64_t shareable, int32_t* pids, size_t count);

ACL_FUNC_VISIBILITY int32_t rtDevBinaryRegister(const void* binary, void** handle);
ACL_FUNC_VISIBILITY int32_t rtFunctionRegister(void* binary, const void* stub, const char* name, const void* info,
                                               uint32_t mode);
ACL_FUNC_VISIBILITY int32_t rtKernelLaunch(const void* stub, uint32_t blocks, void* args, uint32_t args_bytes,
                                           void* description, void* stream);

// The twin's own: how many reports this process made so far.
ACL_FUNC_VISIBILITY uint64_t twinProfilerReports();

}  // extern "C"
