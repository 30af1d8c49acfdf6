// Launches double_values on a stream and checks the result.
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclrtlaunch_double_values.h"

int main() {
  constexpr uint32_t kCount = 10001;
  const size_t bytes = kCount * sizeof(float);
  std::vector<float> values(kCount);
  for (uint32_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
  aclInit(nullptr);
  aclrtSetDevice(0);
  aclrtStream stream = nullptr;
  aclrtCreateStream(&stream);
  void *x = nullptr, *y = nullptr;
  aclrtMalloc(&x, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMalloc(&y, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMemcpy(x, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  ACLRT_LAUNCH_KERNEL(double_values)(40, stream, x, y, kCount);
  if (aclrtSynchronizeStream(stream) != ACL_SUCCESS) {
    std::printf("%s\n", aclGetRecentErrMsg());
    return 1;
  }
  aclrtMemcpy(values.data(), bytes, y, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
  uint32_t right = 0;
  for (uint32_t i = 0; i < kCount; ++i) right += values[i] == 2 * static_cast<float>(i) ? 1 : 0;
  std::printf("%u of %u numbers were doubled\n", right, kCount);
  aclrtFree(x);
  aclrtFree(y);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
  return right == kCount ? 0 : 1;
}
