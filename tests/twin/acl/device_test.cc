// Devices and contexts: what is current on a thread, what a reset destroys, and how invalid numbers are
// refused.
#include <set>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

class DeviceTest : public AclTest {};

TEST_F(DeviceTest, ReportsDeviceCountAndProperties) {
  uint32_t count = 0;
  ASSERT_OK(aclrtGetDeviceCount(&count));
  EXPECT_EQ(count, 8u);
  int64_t value = 0;
  EXPECT_OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &value));
  EXPECT_EQ(value, 20);
  EXPECT_OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &value));
  EXPECT_EQ(value, 40);
  EXPECT_STREQ(aclrtGetSocName(), "Ascend910B3");
  aclrtRunMode mode = ACL_DEVICE;
  EXPECT_OK(aclrtGetRunMode(&mode));
  EXPECT_EQ(mode, ACL_HOST);
}

TEST_F(DeviceTest, RefusesMissingDevices) {
  EXPECT_REFUSED(aclrtSetDevice(8), ACL_ERROR_RT_INVALID_DEVICEID, "no device 8; wanted 0 to 7");
  EXPECT_REFUSED(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID, "no device -1");
  aclrtContext context = nullptr;
  EXPECT_REFUSED(aclrtCreateContext(&context, 9), ACL_ERROR_RT_INVALID_DEVICEID, "no device 9");
  int64_t value = 0;
  EXPECT_REFUSED(aclGetDeviceCapability(8, ACL_DEVICE_INFO_L2_SIZE, &value), ACL_ERROR_RT_INVALID_DEVICEID, "8");
}

TEST_F(DeviceTest, AThreadWithoutAContextIsRefused) {
  std::thread([] {
    int32_t device = 0;
    EXPECT_REFUSED(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, "this thread has no context");
    aclrtStream stream = nullptr;
    EXPECT_REFUSED(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    void* memory = nullptr;
    EXPECT_REFUSED(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL, "context");
    aclrtContext context = nullptr;
    EXPECT_REFUSED(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL, "context");
    EXPECT_REFUSED(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL, "context");
    EXPECT_EQ(CurrentDevice(), -1);
  }).join();
}

TEST_F(DeviceTest, ContextsArePerThread) {
  aclrtContext main_context = nullptr;
  ASSERT_OK(aclrtGetCurrentContext(&main_context));
  std::thread([main_context] {
    EXPECT_OK(aclrtSetDevice(3));
    int32_t device = -1;
    EXPECT_OK(aclrtGetDevice(&device));
    EXPECT_EQ(device, 3);
    EXPECT_OK(aclrtSetCurrentContext(main_context));
    EXPECT_OK(aclrtGetDevice(&device));
    EXPECT_EQ(device, 0);
    EXPECT_OK(aclrtResetDevice(3));
  }).join();
  int32_t device = -1;
  EXPECT_OK(aclrtGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST_F(DeviceTest, ACreatedContextIsCurrentUntilItIsDestroyed) {
  aclrtContext made = nullptr;
  ASSERT_OK(aclrtCreateContext(&made, 2));
  aclrtContext current = nullptr;
  EXPECT_OK(aclrtGetCurrentContext(&current));
  EXPECT_EQ(current, made);
  EXPECT_EQ(CurrentDevice(), 2);
  EXPECT_OK(aclrtDestroyContext(made));
  EXPECT_REFUSED(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL, "no context");
  EXPECT_REFUSED(aclrtDestroyContext(made), ACL_ERROR_RT_CONTEXT_NULL, "not a live context");
  EXPECT_REFUSED(aclrtSetCurrentContext(made), ACL_ERROR_RT_CONTEXT_NULL, "not a live context");
}

TEST_F(DeviceTest, TheDefaultContextCannotBeDestroyed) {
  aclrtContext context = nullptr;
  ASSERT_OK(aclrtGetCurrentContext(&context));
  EXPECT_REFUSED(aclrtDestroyContext(context), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "default context of device 0");
}

TEST_F(DeviceTest, AStreamOfAnotherContextIsRefused) {
  aclrtStream stream = nullptr;
  ASSERT_OK(aclrtCreateStream(&stream));
  EXPECT_EQ(StreamDevice(stream), 0);
  ASSERT_OK(aclrtSetDevice(1));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT,
                 "belongs to device 0; this thread's context is on device 1");
  aclrtContext other = nullptr;
  ASSERT_OK(aclrtCreateContext(&other, 0));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT, "another context of device 0");
  EXPECT_OK(aclrtDestroyContext(other));
  EXPECT_OK(aclrtResetDevice(1));
  ASSERT_OK(aclrtSetDevice(0));
  EXPECT_OK(aclrtDestroyStream(stream));
}

TEST_F(DeviceTest, AResetFreesMemoryStreamsAndTheContext) {
  void* memory = nullptr;
  ASSERT_OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  aclrtStream stream = nullptr;
  ASSERT_OK(aclrtCreateStream(&stream));
  ASSERT_OK(aclrtResetDevice(0));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream), ACL_ERROR_RT_CONTEXT_NULL, "no context");
  ASSERT_OK(aclrtSetDevice(0));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE, "not a live stream");
  EXPECT_REFUSED(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID, "not allocated");
  size_t free = 0;
  size_t total = 0;
  ASSERT_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  EXPECT_EQ(free, total);
}

TEST_F(DeviceTest, PeersAreOtherDevices) {
  int32_t can = 0;
  EXPECT_OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_REFUSED(aclrtDeviceCanAccessPeer(&can, 1, 1), ACL_ERROR_RT_PARAM_INVALID, "both devices are 1");
  EXPECT_REFUSED(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_RT_PARAM_INVALID, "this thread's current device");
  EXPECT_REFUSED(aclrtDeviceEnablePeerAccess(1, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "flags is 1");
  EXPECT_OK(aclrtDeviceEnablePeerAccess(1, 0));
  EXPECT_OK(aclrtDeviceDisablePeerAccess(1));
}

TEST_F(DeviceTest, ErrorCodesAreKeptUntilTaken) {
  aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  EXPECT_EQ(aclrtSetDevice(77), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_SUCCESS);
}

TEST_F(DeviceTest, AThreadWithoutMessagesGetsThoseOfAnother) {
  RecentWords();
  std::thread([] { SetRecentError("the peer has gone"); }).join();
  EXPECT_EQ(RecentWords(), "the peer has gone");
  EXPECT_EQ(RecentWords(), "");
}

}  // namespace
}  // namespace twin
