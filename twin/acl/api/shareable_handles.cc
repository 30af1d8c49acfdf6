// Handles that share physical memory between processes: refused by name with
// ACL_ERROR_RT_FEATURE_NOT_SUPPORT. torch_npu calls them only to share tensors between Python processes; HCCL
// shares device memory without them.
#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/wheel_functions.h"

namespace {

aclError RefuseSharing(const char* function) {
  return twin::FailUnsupported(
      function, "device memory is not shared between processes by handle; send tensors with HCCL instead");
}

}  // namespace

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle, aclrtMemHandleType, uint64_t, uint64_t*) {
  return RefuseSharing(__func__);
}
aclError aclrtMemImportFromShareableHandle(uint64_t, int32_t, aclrtDrvMemHandle*) { return RefuseSharing(__func__); }
aclError aclrtMemSetPidToShareableHandle(uint64_t, int32_t*, size_t) { return RefuseSharing(__func__); }
