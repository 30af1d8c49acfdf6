// From CUDA's codes to ACL's: one table, and the text that aclGetRecentErrMsg gives. Every function of this
// provider returns through here.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "acl/acl.h"

namespace trireme_cuda {

// ACL's code for what CUDA said. A failure leaves its text for aclGetRecentErrMsg, and is taken from CUDA's own
// memory of the last error, where the next check of a kernel launch (torch's) would find it.
aclError AclCode(cudaError_t code, const char* function);

// The same for an argument that CUDA never sees.
aclError Refuse(aclError code, const std::string& text);

}  // namespace trireme_cuda

// Also for the HCCL side, which is a library of its own: sets the thread's text. The name tells programs which
// provider they have.
extern "C" __attribute__((visibility("default"))) void CudaProviderError(const char* text);
