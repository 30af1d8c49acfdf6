#include "providers/cuda/error.h"

#include "acl/error_codes/rt_error_codes.h"

namespace trireme_cuda {
namespace {

thread_local std::string recent, given;

aclError CodeOf(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return ACL_SUCCESS;
    case cudaErrorInvalidValue:
      return ACL_ERROR_RT_PARAM_INVALID;
    case cudaErrorInvalidDevice:
      return ACL_ERROR_RT_INVALID_DEVICEID;
    case cudaErrorInvalidResourceHandle:
      return ACL_ERROR_RT_INVALID_HANDLE;
    case cudaErrorMemoryAllocation:
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
      return ACL_ERROR_RT_NO_DEVICE;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;
    case cudaErrorLaunchTimeout:
      return ACL_ERROR_RT_AICORE_TIMEOUT;
    case cudaErrorNotSupported:
      return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    default:
      return ACL_ERROR_RT_INTERNAL_ERROR;
  }
}

// CUDA encodes versions as 13000.
std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// CUDA reports a missing driver as one that is too old.
std::string DriverText() {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) return "this machine has no NVIDIA driver";
  return "the NVIDIA driver is for CUDA " + VersionText(driver) + ", and this program needs " + VersionText(runtime) +
         " or newer; install a newer driver";
}

}  // namespace

aclError AclCode(cudaError_t code, const char* function) {
  if (code == cudaSuccess) return ACL_SUCCESS;
  static_cast<void>(cudaGetLastError());
  const bool driver = code == cudaErrorInsufficientDriver || code == cudaErrorSystemDriverMismatch;
  CudaProviderError(driver ? DriverText().c_str() : (std::string(function) + ": " + cudaGetErrorString(code)).c_str());
  return CodeOf(code);
}

aclError Refuse(aclError code, const std::string& text) {
  CudaProviderError(text.c_str());
  return code;
}

}  // namespace trireme_cuda

extern "C" {

void CudaProviderError(const char* text) { trireme_cuda::recent = text; }

// Returns the text once, as ACL does.
const char* aclGetRecentErrMsg() {
  using namespace trireme_cuda;
  given.swap(recent);
  recent.clear();
  return given.c_str();
}

}  // extern "C"
