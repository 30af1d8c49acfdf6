// Reserved addresses and physical memory mapped to them.
#include <cstring>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

constexpr size_t kUnit = size_t{2} << 20;

class MappedMemoryTest : public AclTest {
 protected:
  static aclrtPhysicalMemProp Property() {
    aclrtPhysicalMemProp property{};
    property.handleType = ACL_MEM_HANDLE_TYPE_NONE;
    property.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    property.memAttr = ACL_HBM_MEM_HUGE;
    property.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    return property;
  }
  static aclrtDrvMemHandle Physical(size_t bytes) {
    const aclrtPhysicalMemProp property = Property();
    aclrtDrvMemHandle handle = nullptr;
    EXPECT_OK(aclrtMallocPhysical(&handle, bytes, &property, 0));
    return handle;
  }
  static size_t Used() {
    size_t free = 0;
    size_t total = 0;
    EXPECT_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    return total - free;
  }
};

TEST_F(MappedMemoryTest, GranularityIsQueriedByOption) {
  aclrtPhysicalMemProp property = Property();
  size_t granularity = 0;
  EXPECT_OK(aclrtMemGetAllocationGranularity(&property, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
  EXPECT_EQ(granularity, kUnit);
  EXPECT_REFUSED(aclrtMemGetAllocationGranularity(&property, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, &granularity),
                 ACL_ERROR_RT_PARAM_INVALID, "wanted 0 (minimum) or 1 (recommended)");
}

TEST_F(MappedMemoryTest, MappedMemoryIsDeviceMemory) {
  void* reserved = nullptr;
  ASSERT_OK(aclrtReserveMemAddress(&reserved, 4 * kUnit, 0, nullptr, 1));
  EXPECT_EQ(Used(), 0u);
  aclrtDrvMemHandle first = Physical(kUnit);
  aclrtDrvMemHandle second = Physical(kUnit);
  EXPECT_EQ(Used(), 2 * kUnit);
  auto* begin = static_cast<char*>(reserved);
  ASSERT_OK(aclrtMapMem(begin, kUnit, 0, first, 0));
  ASSERT_OK(aclrtMapMem(begin + kUnit, kUnit, 0, second, 0));
  // A copy over both pieces, and back.
  std::string text(3 * kUnit / 2, 'x');
  ASSERT_OK(aclrtMemcpy(begin, 2 * kUnit, text.data(), text.size(), ACL_MEMCPY_HOST_TO_DEVICE));
  std::string back(text.size(), ' ');
  ASSERT_OK(aclrtMemcpy(back.data(), back.size(), begin, text.size(), ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(back, text);
  EXPECT_REFUSED(aclrtMemcpy(begin, 3 * kUnit, text.data(), 2 * kUnit + 1, ACL_MEMCPY_HOST_TO_DEVICE),
                 ACL_ERROR_RT_PARAM_INVALID, "not entirely inside one allocation");
  // The memory file holds the same bytes.
  const size_t offset = ArenaOffset(0, begin + 100, 10);
  ASSERT_NE(offset, SIZE_MAX);
  EXPECT_EQ(static_cast<char>(DeviceArena(0).base[offset]), 'x');
  EXPECT_OK(aclrtUnmapMem(begin));
  EXPECT_OK(aclrtUnmapMem(begin + kUnit));
  EXPECT_OK(aclrtFreePhysical(first));
  EXPECT_OK(aclrtFreePhysical(second));
  EXPECT_EQ(Used(), 0u);
  EXPECT_OK(aclrtReleaseMemAddress(reserved));
}

TEST_F(MappedMemoryTest, RefusesWrongUse) {
  void* reserved = nullptr;
  EXPECT_REFUSED(aclrtReserveMemAddress(&reserved, 0, 0, nullptr, 0), ACL_ERROR_RT_PARAM_INVALID, "size is 0");
  ASSERT_OK(aclrtReserveMemAddress(&reserved, 512, 0, nullptr, 1));  // as torch_npu's allocator asks at its start
  ASSERT_OK(aclrtReleaseMemAddress(reserved));
  ASSERT_OK(aclrtReserveMemAddress(&reserved, 2 * kUnit, 0, nullptr, 0));
  aclrtDrvMemHandle handle = Physical(kUnit);
  auto* begin = static_cast<char*>(reserved);
  EXPECT_REFUSED(aclrtMapMem(begin + 4096, kUnit, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID, "aligned part");
  EXPECT_REFUSED(aclrtMapMem(begin, 2 * kUnit, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID, "wanted the handle's");
  EXPECT_REFUSED(aclrtMapMem(begin, kUnit, 0, &handle, 0), ACL_ERROR_RT_INVALID_HANDLE, "not a live handle");
  ASSERT_OK(aclrtMapMem(begin, kUnit, 0, handle, 0));
  EXPECT_REFUSED(aclrtMapMem(begin + kUnit, kUnit, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID, "already mapped");
  EXPECT_REFUSED(aclrtFreePhysical(handle), ACL_ERROR_RT_PARAM_INVALID, "still mapped");
  EXPECT_REFUSED(aclrtReleaseMemAddress(begin), ACL_ERROR_RT_PARAM_INVALID, "still mapped");
  EXPECT_REFUSED(aclrtFree(begin), ACL_ERROR_RT_PARAM_INVALID, "wanted what aclrtMalloc returned");
  EXPECT_OK(aclrtUnmapMem(begin));
  EXPECT_REFUSED(aclrtUnmapMem(begin), ACL_ERROR_RT_PARAM_INVALID, "not the start of a mapping");
  EXPECT_OK(aclrtFreePhysical(handle));
  EXPECT_REFUSED(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE, "not a live handle");
  EXPECT_OK(aclrtReleaseMemAddress(begin));
  EXPECT_REFUSED(aclrtReleaseMemAddress(begin), ACL_ERROR_RT_PARAM_INVALID, "not the start of a reserved range");
}

TEST_F(MappedMemoryTest, OutOfMemoryHasTheSameCode) {
  const aclrtPhysicalMemProp property = Property();
  aclrtDrvMemHandle handle = nullptr;
  EXPECT_REFUSED(aclrtMallocPhysical(&handle, size_t{1} << 30, &property, 0), ACL_ERROR_RT_MEMORY_ALLOCATION,
                 "out of memory");
}

}  // namespace
}  // namespace twin
