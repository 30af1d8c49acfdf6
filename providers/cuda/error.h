// Maps CUDA's codes to ACL's: one table, and the text that aclGetRecentErrMsg returns. Every function of this
// provider returns through here.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "acl/acl.h"

namespace trireme_cuda {

// ACL's code for CUDA's. A failure sets the text of aclGetRecentErrMsg, and clears CUDA's own last error,
// which the next check of a kernel launch (torch's) would otherwise find.
aclError AclCode(cudaError_t code, const char* function);

// The same for an argument that CUDA never sees.
aclError Refuse(aclError code, const std::string& text);

}  // namespace trireme_cuda

// Also for the HCCL side, which is a separate library: sets the thread's text. The symbol's name tells
// programs which provider they have.
extern "C" __attribute__((visibility("default"))) void CudaProviderError(const char* text);
