// The smallest program for the twin: copies to a device and back, on a stream. Also runs on an Ascend host.
#include <cstdio>

#include "acl/acl.h"

int main() {
  aclInit(nullptr);
  aclrtSetDevice(0);
  aclrtStream stream = nullptr;
  aclrtCreateStream(&stream);
  float *pinned = nullptr, *device = nullptr;
  aclrtMallocHost(reinterpret_cast<void**>(&pinned), 2 * sizeof(float));
  aclrtMalloc(reinterpret_cast<void**>(&device), sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST);
  pinned[0] = 42;
  aclrtMemcpyAsync(device, sizeof(float), &pinned[0], sizeof(float), ACL_MEMCPY_HOST_TO_DEVICE, stream);
  aclrtMemcpyAsync(&pinned[1], sizeof(float), device, sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST, stream);
  const aclError status = aclrtSynchronizeStream(stream);
  std::printf("%s: 42 went to the device and came back as %g\n", aclrtGetSocName(), pinned[1]);
  const bool right = status == ACL_SUCCESS && pinned[1] == 42;
  aclrtFree(device);
  aclrtFreeHost(pinned);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
  return right ? 0 : 1;
}
