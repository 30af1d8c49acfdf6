// ACL's memory and copies over CUDA's: plain blocks. Tensors use torch's own allocator.
#include <string>

#include "acl/error_codes/rt_error_codes.h"
#include "providers/cuda/error.h"

namespace {

using trireme_cuda::AclCode;
using trireme_cuda::Refuse;

cudaMemcpyKind KindOf(aclrtMemcpyKind kind) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      return cudaMemcpyHostToHost;
    case ACL_MEMCPY_HOST_TO_DEVICE:
      return cudaMemcpyHostToDevice;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return cudaMemcpyDeviceToHost;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
      return cudaMemcpyDeviceToDevice;
    default:
      return cudaMemcpyDefault;
  }
}

// CUDA does not know the size of the destination.
aclError CheckFits(size_t bytes, size_t room) {
  if (bytes <= room) return ACL_SUCCESS;
  return Refuse(ACL_ERROR_RT_PARAM_INVALID, std::to_string(bytes) + " bytes do not fit into " + std::to_string(room));
}

}  // namespace

extern "C" {

aclError aclrtMalloc(void** data, size_t bytes, aclrtMemMallocPolicy) {
  return AclCode(cudaMalloc(data, bytes), "cudaMalloc");
}

aclError aclrtFree(void* data) { return AclCode(cudaFree(data), "cudaFree"); }

aclError aclrtMallocHost(void** data, size_t bytes) { return AclCode(cudaMallocHost(data, bytes), "cudaMallocHost"); }

aclError aclrtFreeHost(void* data) { return AclCode(cudaFreeHost(data), "cudaFreeHost"); }

aclError aclrtMemcpy(void* target, size_t room, const void* source, size_t bytes, aclrtMemcpyKind kind) {
  if (const aclError code = CheckFits(bytes, room); code != ACL_SUCCESS) return code;
  const aclError code = AclCode(cudaMemcpy(target, source, bytes, KindOf(kind)), "cudaMemcpy");
  if (code != ACL_SUCCESS) return code;
  // CUDA may return before the copy to the device has finished; streams other than the default one would not
  // wait.
  return AclCode(cudaStreamSynchronize(nullptr), "cudaMemcpy");
}

aclError aclrtMemcpyAsync(void* target, size_t room, const void* source, size_t bytes, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  if (const aclError code = CheckFits(bytes, room); code != ACL_SUCCESS) return code;
  return AclCode(cudaMemcpyAsync(target, source, bytes, KindOf(kind), static_cast<cudaStream_t>(stream)),
                 "cudaMemcpyAsync");
}

aclError aclrtMemsetAsync(void* target, size_t room, int32_t value, size_t bytes, aclrtStream stream) {
  if (const aclError code = CheckFits(bytes, room); code != ACL_SUCCESS) return code;
  return AclCode(cudaMemsetAsync(target, value, bytes, static_cast<cudaStream_t>(stream)), "cudaMemsetAsync");
}

}  // extern "C"
