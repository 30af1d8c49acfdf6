// Kernels from binaries, by ACL's functions and by the runtime's older rt… ones, which newer torch_npu wheels
// link. A binary contains device code, which the host cannot run: each function is refused by its name.
// Kernels of the twin are launched by their aclrtlaunch_ functions (kernel_launch.cc).
#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/wheel_functions.h"

namespace {

aclError RefuseBinary(const char* function) {
  return twin::FailUnsupported(function, "kernels are launched by their aclrtlaunch_ function, not from a binary");
}

}  // namespace

aclError aclrtBinaryLoadFromFile(const char*, void*, aclrtBinHandle*) { return RefuseBinary(__func__); }
aclError aclrtBinaryLoadFromData(const void*, size_t, const void*, aclrtBinHandle*) { return RefuseBinary(__func__); }
aclError aclrtBinaryGetFunction(aclrtBinHandle, const char*, aclrtFuncHandle*) { return RefuseBinary(__func__); }
aclError aclrtGetFunctionAddr(aclrtFuncHandle, void**, void**) { return RefuseBinary(__func__); }
aclError aclrtBinaryUnLoad(aclrtBinHandle) { return RefuseBinary(__func__); }
aclError aclrtLaunchKernel(aclrtFuncHandle, uint32_t, const void*, size_t, aclrtStream) {
  return RefuseBinary(__func__);
}

int32_t rtDevBinaryRegister(const void*, void**) { return RefuseBinary(__func__); }
int32_t rtFunctionRegister(void*, const void*, const char*, const void*, uint32_t) { return RefuseBinary(__func__); }
int32_t rtKernelLaunch(const void*, uint32_t, void*, uint32_t, void*, void*) { return RefuseBinary(__func__); }
