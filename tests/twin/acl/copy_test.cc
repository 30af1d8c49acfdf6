// Copies and sets: kinds checked against where the addresses are, bounds, order on a stream, pageable host
// memory.
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

constexpr size_t kBytes = 4096;

class CopyTest : public AclTest {
 protected:
  void SetUp() override {
    AclTest::SetUp();
    ASSERT_OK(aclrtCreateStream(&stream_));
    ASSERT_OK(aclrtMalloc(&device_, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
    ASSERT_OK(aclrtMalloc(&other_, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
    ASSERT_OK(aclrtMallocHost(&pinned_, kBytes));
    std::iota(host_.begin(), host_.end(), static_cast<unsigned char>(1));
  }
  void TearDown() override {
    EXPECT_OK(aclrtFreeHost(pinned_));
    AclTest::TearDown();
  }

  aclrtStream stream_ = nullptr;
  void* device_ = nullptr;
  void* other_ = nullptr;
  void* pinned_ = nullptr;
  std::vector<unsigned char> host_ = std::vector<unsigned char>(kBytes);
};

TEST_F(CopyTest, GoesThroughEveryKind) {
  std::vector<unsigned char> back(kBytes);
  ASSERT_OK(aclrtMemcpy(pinned_, kBytes, host_.data(), kBytes, ACL_MEMCPY_HOST_TO_HOST));
  ASSERT_OK(aclrtMemcpy(device_, kBytes, pinned_, kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
  ASSERT_OK(aclrtMemcpy(other_, kBytes, device_, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE));
  ASSERT_OK(aclrtMemcpy(back.data(), kBytes, other_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(back, host_);
}

TEST_F(CopyTest, AKindThatDoesNotMatchTheAddressesIsRefused) {
  std::vector<unsigned char> back(kBytes);
  struct Case {
    void* dst;
    void* src;
    aclrtMemcpyKind kind;
    const char* words;
  };
  const Case cases[] = {
      {back.data(), host_.data(), ACL_MEMCPY_HOST_TO_DEVICE, "dst is host memory; this kind of copy needs device"},
      {pinned_, host_.data(), ACL_MEMCPY_HOST_TO_DEVICE, "dst is pinned host memory"},
      {device_, other_, ACL_MEMCPY_HOST_TO_DEVICE, "src is memory of device 0; this kind of copy needs host"},
      {back.data(), host_.data(), ACL_MEMCPY_DEVICE_TO_HOST, "src is host memory"},
      {device_, other_, ACL_MEMCPY_DEVICE_TO_HOST, "dst is memory of device 0"},
      {device_, host_.data(), ACL_MEMCPY_DEVICE_TO_DEVICE, "src is host memory"},
      {device_, host_.data(), ACL_MEMCPY_HOST_TO_HOST, "dst is memory of device 0"},
  };
  for (const Case& wrong : cases) {
    EXPECT_REFUSED(aclrtMemcpy(wrong.dst, 8, wrong.src, 8, wrong.kind), ACL_ERROR_RT_PARAM_INVALID, wrong.words);
    EXPECT_REFUSED(aclrtMemcpyAsync(wrong.dst, 8, wrong.src, 8, wrong.kind, stream_), ACL_ERROR_RT_PARAM_INVALID,
                   wrong.words);
  }
  EXPECT_REFUSED(aclrtMemcpy(device_, 8, host_.data(), 8, static_cast<aclrtMemcpyKind>(9)), ACL_ERROR_INVALID_PARAM,
                 "unknown kind 9");
}

TEST_F(CopyTest, BoundsAreChecked) {
  EXPECT_REFUSED(aclrtMemcpy(device_, 8, host_.data(), 9, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID,
                 "count is 9 but destMax is 8");
  std::vector<unsigned char> large(2 * kBytes);
  EXPECT_REFUSED(aclrtMemcpy(device_, 2 * kBytes, large.data(), 2 * kBytes, ACL_MEMCPY_HOST_TO_DEVICE),
                 ACL_ERROR_RT_PARAM_INVALID, "not entirely inside one allocation of device 0");
  EXPECT_REFUSED(aclrtMemcpy(nullptr, 8, host_.data(), 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM, "dst");
  EXPECT_REFUSED(aclrtMemset(device_, 8, 0, 9), ACL_ERROR_RT_PARAM_INVALID, "count is 9 but maxCount is 8");
  EXPECT_REFUSED(aclrtMemset(device_, 2 * kBytes, 0, 2 * kBytes), ACL_ERROR_RT_PARAM_INVALID, "not entirely inside");
  ASSERT_OK(aclrtFree(other_));
  EXPECT_REFUSED(aclrtMemcpy(other_, 8, host_.data(), 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID,
                 "not entirely inside one allocation");
}

TEST_F(CopyTest, WithPinnedMemoryTheCallReturnsBeforeTheCopy) {
  std::memset(pinned_, 7, kBytes);
  ASSERT_OK(aclrtMemset(device_, kBytes, 1, kBytes));
  Gate gate;
  ASSERT_OK(gate.Block(stream_));
  ASSERT_OK(aclrtMemcpyAsync(device_, kBytes, pinned_, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  EXPECT_EQ(static_cast<char*>(device_)[9], 1);
  gate.Open();
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(static_cast<char*>(device_)[9], 7);
}

TEST_F(CopyTest, WithPageableMemoryItRunsInStreamOrderAndIsDoneOnReturn) {
  ASSERT_OK(Enqueue(
      stream_,
      [this] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        static_cast<unsigned char*>(device_)[0] = 99;
        return ACL_SUCCESS;
      },
      "earlier work"));
  ASSERT_OK(aclrtMemcpyAsync(host_.data(), kBytes, device_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream_));
  EXPECT_EQ(host_[0], 99);
}

TEST_F(CopyTest, RegisteredMemoryCountsAsPinned) {
  void* on_device = nullptr;
  ASSERT_OK(aclrtHostRegister(host_.data(), kBytes, ACL_HOST_REGISTER_MAPPED, &on_device));
  Gate gate;
  ASSERT_OK(gate.Block(stream_));
  ASSERT_OK(aclrtMemcpyAsync(device_, kBytes, host_.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  gate.Open();
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(std::memcmp(device_, host_.data(), kBytes), 0);
  EXPECT_REFUSED(aclrtHostRegister(host_.data(), 8, ACL_HOST_REGISTER_MAPPED, &on_device), ACL_ERROR_RT_PARAM_INVALID,
                 "pinned host memory");
  EXPECT_OK(aclrtHostUnregister(host_.data()));
  EXPECT_REFUSED(aclrtHostUnregister(host_.data()), ACL_ERROR_RT_PARAM_INVALID, "not registered");
}

TEST_F(CopyTest, SetsAreOnTheStream) {
  ASSERT_OK(aclrtMemsetAsync(device_, kBytes, 0x11, kBytes, stream_));
  ASSERT_OK(aclrtMemsetAsync(device_, kBytes, 0x22, kBytes / 2, stream_));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(static_cast<char*>(device_)[0], 0x22);
  EXPECT_EQ(static_cast<char*>(device_)[kBytes - 1], 0x11);
}

TEST_F(CopyTest, MatricesKeepTheirPitches) {
  ASSERT_OK(aclrtMemset(device_, kBytes, 0, kBytes));
  ASSERT_OK(aclrtMemcpy2d(device_, 64, host_.data(), 16, 8, 10, ACL_MEMCPY_HOST_TO_DEVICE));
  ASSERT_OK(aclrtMemcpy2dAsync(pinned_, 8, device_, 64, 8, 10, ACL_MEMCPY_DEVICE_TO_HOST, stream_));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  const auto* packed = static_cast<unsigned char*>(pinned_);
  for (int row = 0; row < 10; ++row) {
    for (int i = 0; i < 8; ++i) ASSERT_EQ(packed[row * 8 + i], host_[row * 16 + i]);
  }
  EXPECT_EQ(static_cast<char*>(device_)[8], 0);
  EXPECT_REFUSED(aclrtMemcpy2d(device_, 4, host_.data(), 16, 8, 10, ACL_MEMCPY_HOST_TO_DEVICE),
                 ACL_ERROR_RT_PARAM_INVALID, "width within both pitches");
  EXPECT_REFUSED(aclrtMemcpy2d(device_, 1024, host_.data(), 16, 8, 10, ACL_MEMCPY_HOST_TO_DEVICE),
                 ACL_ERROR_RT_PARAM_INVALID, "not entirely inside");
}

TEST_F(CopyTest, BetweenDevicesNeedsPeerAccess) {
  ASSERT_OK(aclrtSetDevice(1));
  void* far = nullptr;
  ASSERT_OK(aclrtMalloc(&far, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT_REFUSED(aclrtMemcpy(far, kBytes, device_, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID,
                 "call aclrtDeviceEnablePeerAccess");
  ASSERT_OK(aclrtDeviceEnablePeerAccess(0, 0));
  EXPECT_OK(aclrtMemcpy(far, kBytes, device_, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE));
  EXPECT_OK(aclrtResetDevice(1));
  ASSERT_OK(aclrtSetDevice(0));
}

class BatchTest : public CopyTest {
 protected:
  aclError Copy(std::vector<void*> dsts, std::vector<void*> srcs, size_t bytes, std::vector<bool> to_device,
                size_t* failed, bool on_stream) {
    std::vector<size_t> sizes(dsts.size(), bytes);
    std::vector<aclrtMemcpyBatchAttr> attrs;
    std::vector<size_t> begins;
    for (size_t i = 0; i < dsts.size(); ++i) {
      const aclrtMemLocation host{0, ACL_MEM_LOCATION_TYPE_HOST};
      const aclrtMemLocation device{0, ACL_MEM_LOCATION_TYPE_DEVICE};
      attrs.push_back({to_device[i] ? device : host, to_device[i] ? host : device, {}});
      begins.push_back(i);
    }
    return on_stream ? aclrtMemcpyBatchAsync(dsts.data(), sizes.data(), srcs.data(), sizes.data(), dsts.size(),
                                             attrs.data(), begins.data(), attrs.size(), failed, stream_)
                     : aclrtMemcpyBatch(dsts.data(), sizes.data(), srcs.data(), sizes.data(), dsts.size(), attrs.data(),
                                        begins.data(), attrs.size(), failed);
  }
};

TEST_F(BatchTest, CopiesBothWays) {
  for (const bool on_stream : {false, true}) {
    size_t failed = 0;
    std::memset(pinned_, 0, kBytes);
    ASSERT_OK(aclrtMemset(other_, kBytes, 5, kBytes));
    ASSERT_OK(Copy({device_, pinned_}, {host_.data(), other_}, 100, {true, false}, &failed, on_stream));
    ASSERT_OK(aclrtSynchronizeStream(stream_));
    EXPECT_EQ(std::memcmp(device_, host_.data(), 100), 0);
    EXPECT_EQ(static_cast<char*>(pinned_)[99], 5);
    EXPECT_EQ(failed, SIZE_MAX);
  }
}

TEST_F(BatchTest, NamesTheCopyThatIsWrongAndCopiesNone) {
  size_t failed = 0;
  ASSERT_OK(aclrtMemset(device_, kBytes, 3, kBytes));
  EXPECT_REFUSED(Copy({device_, other_}, {host_.data(), pinned_}, 100, {true, false}, &failed, false),
                 ACL_ERROR_RT_PARAM_INVALID, "its attribute says host");
  EXPECT_EQ(failed, 1u);
  EXPECT_EQ(static_cast<char*>(device_)[0], 3);
}

}  // namespace
}  // namespace twin
