// Kernel launch: every block once, arguments copied, blocks that wait for each other, failures.
#include "twin/include/twin/launch.h"

#include <stdexcept>
#include <vector>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

class KernelTest : public AclTest {
 protected:
  void SetUp() override {
    AclTest::SetUp();
    ASSERT_OK(aclrtCreateStream(&stream_));
  }
  aclrtStream stream_ = nullptr;
};

struct CountArgs {
  std::atomic<int>* calls;  // one per block
  double factor;
};

void CountBlock(uint32_t block, uint32_t blocks, const void* args) {
  const auto* given = static_cast<const CountArgs*>(args);
  given->calls[block] += static_cast<int>(given->factor) + static_cast<int>(blocks);
}

TEST_F(KernelTest, RunsEachBlockOnceWithItsArguments) {
  for (const uint32_t blocks : {1u, 2u, 40u, 5000u}) {
    std::vector<std::atomic<int>> calls(blocks);
    CountArgs args{calls.data(), 3.0};
    ASSERT_OK(twinLaunchKernel("count", blocks, stream_, CountBlock, &args, sizeof args));
    args = {nullptr, 0};  // already copied
    ASSERT_OK(aclrtSynchronizeStream(stream_));
    for (const auto& count : calls) ASSERT_EQ(count, 3 + static_cast<int>(blocks));
  }
}

// A barrier like SyncAll: no block passes before all have arrived.
void BarrierBlock(uint32_t, uint32_t blocks, const void* args) {
  auto* arrived = *static_cast<std::atomic<uint32_t>* const*>(args);
  for (uint32_t round = 1; round <= 3; ++round) {
    ++*arrived;
    if (*arrived < round * blocks) twinBlockWaits();
    while (*arrived < round * blocks && !twinLaunchFailed()) std::this_thread::yield();
  }
}

TEST_F(KernelTest, BlocksThatWaitForEachOtherAllRun) {
  for (const uint32_t blocks : {2u, 20u, 100u}) {
    std::atomic<uint32_t> arrived{0};
    std::atomic<uint32_t>* args = &arrived;
    ASSERT_OK(twinLaunchKernel("barrier", blocks, stream_, BarrierBlock, &args, sizeof args));
    ASSERT_OK(aclrtSynchronizeStream(stream_));
    EXPECT_EQ(arrived, 3 * blocks);
  }
}

void ThrowInBlockTwo(uint32_t block, uint32_t, const void*) {
  if (block == 2) throw std::runtime_error("reads beyond the buffer");
}

TEST_F(KernelTest, ABlocksExceptionFailsTheStream) {
  ASSERT_OK(twinLaunchKernel("broken", 4, stream_, ThrowInBlockTwo, nullptr, 0));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION,
                 "broken: block 2 of 4: reads beyond the buffer");
}

// No stream: the caller has the result, and the message of a failure, when the launch returns.
TEST_F(KernelTest, RunsOnTheCallersThreads) {
  for (const uint32_t threads : {0u, 1u, 3u}) {
    std::vector<std::atomic<int>> calls(40);
    const CountArgs args{calls.data(), 3.0};
    ASSERT_OK(twinLaunchKernel("count", 40, twinCallersThreads(threads), CountBlock, &args, sizeof args));
    for (const auto& count : calls) ASSERT_EQ(count, 43);
    EXPECT_REFUSED(twinLaunchKernel("broken", 4, twinCallersThreads(threads), ThrowInBlockTwo, nullptr, 0),
                   ACL_ERROR_RT_AICORE_EXCEPTION, "broken: block 2 of 4: reads beyond the buffer");
  }
  std::atomic<uint32_t> arrived{0};
  std::atomic<uint32_t>* waits = &arrived;
  ASSERT_OK(twinLaunchKernel("barrier", 20, twinCallersThreads(1), BarrierBlock, &waits, sizeof waits));
  EXPECT_EQ(arrived, 60u);
}

TEST_F(KernelTest, KnowsWhatIsAllocated) {
  void* memory = nullptr;
  ASSERT_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
  EXPECT_EQ(twinIsAllocated(memory, 4096), 1);
  EXPECT_EQ(twinIsAllocated(memory, 1 << 20), 0);
  int here = 0;
  EXPECT_EQ(twinIsAllocated(&here, sizeof here), 1);  // not device memory: the twin cannot tell
  ASSERT_OK(aclrtFree(memory));
}

TEST_F(KernelTest, RefusesWrongLaunches) {
  EXPECT_REFUSED(twinLaunchKernel("count", 0, stream_, CountBlock, nullptr, 0), ACL_ERROR_RT_PARAM_INVALID,
                 "launched with 0 blocks");
  EXPECT_REFUSED(twinLaunchKernel("count", 1, stream_, nullptr, nullptr, 0), ACL_ERROR_INVALID_PARAM, "body is null");
  EXPECT_REFUSED(twinLaunchKernel("count", 1, &stream_, CountBlock, nullptr, 0), ACL_ERROR_RT_INVALID_HANDLE, "stream");
  EXPECT_REFUSED(aclrtLaunchKernel(nullptr, 1, nullptr, 0, stream_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                 "aclrtLaunchKernel: not supported by the CANN twin");
}

}  // namespace
}  // namespace twin
