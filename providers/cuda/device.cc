// ACL's devices over CUDA's. CUDA_PROVIDER_RANKS_PER_GPU=N presents each GPU as N devices, for tests of
// several ranks on one card, which then share memory and speed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "acl/error_codes/rt_error_codes.h"
#include "providers/cuda/error.h"

namespace {

using trireme_cuda::AclCode;
using trireme_cuda::Refuse;

int SharesPerGpu() {
  const char* text = std::getenv("CUDA_PROVIDER_RANKS_PER_GPU");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

aclError CountGpus(int* count) {
  const aclError code = AclCode(cudaGetDeviceCount(count), "cudaGetDeviceCount");
  if (code == ACL_SUCCESS && *count == 0) return Refuse(ACL_ERROR_RT_NO_DEVICE, "this machine has no GPU");
  return code;
}

}  // namespace

extern "C" {

aclError aclInit(const char*) { return ACL_SUCCESS; }

aclError aclrtGetDeviceCount(uint32_t* count) {
  int gpus = 0;
  const aclError code = CountGpus(&gpus);
  if (code == ACL_SUCCESS) *count = static_cast<uint32_t>(gpus * SharesPerGpu());
  return code;
}

aclError aclrtSetDevice(int32_t device) {
  int gpus = 0;
  if (const aclError code = CountGpus(&gpus); code != ACL_SUCCESS) return code;
  if (device < 0 || device >= gpus * SharesPerGpu()) {
    return Refuse(ACL_ERROR_RT_INVALID_DEVICEID,
                  "device " + std::to_string(device) + " of " + std::to_string(gpus * SharesPerGpu()));
  }
  return AclCode(cudaSetDevice(device % gpus), "cudaSetDevice");
}

// CUDA has one context per process, and torch may still use it: the end of the process resets it.
aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }

aclError aclrtSynchronizeDevice() { return AclCode(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free_bytes, size_t* total_bytes) {
  return AclCode(cudaMemGetInfo(free_bytes, total_bytes), "cudaMemGetInfo");
}

const char* aclrtGetSocName() {
  static const std::string name = [] {
    int device = 0;
    cudaDeviceProp properties = {};
    if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess)
      return std::string();
    return std::string(properties.name);
  }();
  return name.c_str();
}

// The runtime's version serves as ACL's, the driver's as the package's.
aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  int version = 0;
  const aclError code = AclCode(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  *major = version / 1000;
  *minor = version % 1000 / 10;
  *patch = 0;
  return code;
}

aclError aclsysGetCANNVersion(aclCANNPackageName, aclCANNPackageVersion* package) {
  int version = 0;
  const aclError code = AclCode(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  std::snprintf(package->version, sizeof package->version, "%d.%d", version / 1000, version % 1000 / 10);
  return code;
}

aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo info, int64_t* value) {
  if (info != ACL_DEVICE_INFO_VECTOR_CORE_NUM)
    return Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "only the number of cores is supported");
  int cores = 0;
  const aclError code =
      AclCode(cudaDeviceGetAttribute(&cores, cudaDevAttrMultiProcessorCount, static_cast<int>(device)),
              "cudaDeviceGetAttribute");
  *value = cores;
  return code;
}

}  // extern "C"
