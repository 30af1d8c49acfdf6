// Devices: counting, selecting, refusing, and what memory() returns.
#include "core/device/device.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/device/buffer.h"
#include "core/device/cann_info.h"

namespace trireme {
namespace {

TEST(Device, CountsAndSetsTheChosenOne) {
  ASSERT_GE(Device::Count(), 1);
  const int last = Device::Count() - 1;
  const Device device(last);
  EXPECT_EQ(device.index(), last);
  int current = -1;
  ASSERT_EQ(aclrtGetDevice(&current), ACL_SUCCESS);
  EXPECT_EQ(current, last);
}

TEST(Device, RefusesAMissingIndex) {
  const int count = Device::Count();
  try {
    const Device device(count);
    FAIL() << "device " << count << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find(Concat("this host has ", count)), std::string::npos) << error.what();
  }
}

TEST(Device, MoreRanksThanDevicesIsAnInputErrorWithAFix) {
  const int count = Device::Count();
  EXPECT_EQ(Device::ForLocalRank(count - 1).index(), count - 1);
  try {
    const Device device = Device::ForLocalRank(count);
    FAIL() << "local rank " << count << " got device " << device.index();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find(Concat("TWIN_DEVICES=", count + 1)), std::string::npos) << error.what();
  }
}

TEST(Device, MemoryFallsAndRisesWithABuffer) {
  const Device device(0);
  const DeviceMemory before = device.memory();
  EXPECT_LE(before.free_bytes, before.total_bytes);
  constexpr size_t kBytes = 64 << 20;
  {
    const DeviceBuffer buffer(kBytes);
    EXPECT_LE(device.memory().free_bytes + kBytes, before.free_bytes);
  }
  EXPECT_EQ(device.memory().free_bytes, before.free_bytes);
  EXPECT_EQ(device.memory().total_bytes, before.total_bytes);
}

TEST(Device, AnotherThreadUsesItAfterMakeCurrent) {
  const Device device(0);
  std::string refused;
  bool allocated = false;
  std::thread([&] {
    try {
      const DeviceBuffer buffer(64);
    } catch (const Error& error) {
      refused = error.what();
    }
    device.MakeCurrent();
    const DeviceBuffer buffer(64);
    allocated = buffer.data() != nullptr;
  }).join();
  EXPECT_NE(refused.find("MakeCurrent"), std::string::npos) << refused;
  EXPECT_TRUE(allocated);
}

TEST(Cann, ReportsProviderAndPath) {
  const Device device(0);
  const CannInfo info = QueryCann();
  EXPECT_EQ(info.soc_name.rfind("Ascend", 0), 0u) << info.soc_name;
  EXPECT_NE(info.acl_version.find('.'), std::string::npos) << info.acl_version;
  EXPECT_NE(AclLibrary().find("libascendcl"), std::string::npos) << AclLibrary();
  EXPECT_EQ(info.twin, AclLibrary().find("/twin/lib/") != std::string::npos) << AclLibrary();
}

}  // namespace
}  // namespace trireme
