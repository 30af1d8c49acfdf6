// A device's memory by itself: what an allocation that fails leaves of its charge.
#include "twin/acl/runtime/device_memory.h"

#include <gtest/gtest.h>

#include "twin/acl/runtime/error.h"

namespace twin {

// The library's own also keeps the words.
aclError Fail(aclError code, const char* /*function*/, const std::string& /*text*/) { return code; }

namespace {

constexpr size_t kCapacity = size_t{1} << 20;

TEST(DeviceMemory, AnAllocationThatFindsNoPieceIsNotCharged) {
  DeviceMemory memory(0, kCapacity);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(memory.Allocate("test", 64, 64, &first), ACL_SUCCESS);  // at the first address
  const size_t used = memory.used();
  for (int tries = 0; tries < 3; ++tries) {
    // No other address is a multiple of this: there is room, but not in the right place.
    EXPECT_EQ(memory.Allocate("test", kCapacity / 2, size_t{1} << 40, &second), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_EQ(memory.used(), used);
  }
  EXPECT_EQ(memory.Allocate("test", kCapacity, 64, &second), ACL_ERROR_RT_MEMORY_ALLOCATION);  // nor by its size
  EXPECT_EQ(memory.used(), used);
  ASSERT_EQ(memory.Allocate("test", kCapacity / 2, 64, &second), ACL_SUCCESS);
  EXPECT_EQ(memory.used(), used + kCapacity / 2);
  EXPECT_EQ(memory.Free("test", second), ACL_SUCCESS);
  EXPECT_EQ(memory.Free("test", first), ACL_SUCCESS);
  EXPECT_EQ(memory.used(), 0u);
}

}  // namespace
}  // namespace twin
