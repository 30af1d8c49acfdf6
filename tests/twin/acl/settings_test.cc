// The environment variables that describe the twin's machine.
#include "twin/acl/runtime/settings.h"

#include <gtest/gtest.h>

namespace twin {
namespace {

TEST(Settings, DefaultsAreEightDevicesOfSixtyFourGigabytes) {
  const Settings parsed = ParseSettings(nullptr, nullptr, nullptr);
  EXPECT_EQ(parsed.devices, 8);
  EXPECT_EQ(parsed.device_memory_bytes, size_t{64} << 30);
  EXPECT_EQ(parsed.problem, "");
}

TEST(Settings, TakesCountsAndFractionsOfGigabytes) {
  const Settings parsed = ParseSettings("3", nullptr, "0.25");
  EXPECT_EQ(parsed.devices, 3);
  EXPECT_EQ(parsed.device_memory_bytes, size_t{256} << 20);
}

TEST(Settings, VisibleDevicesAreRenumbered) {
  EXPECT_EQ(ParseSettings("8", "5,2", nullptr).devices, 2);
  EXPECT_EQ(ParseSettings("8", "", nullptr).devices, 0);
}

struct Wrong {
  const char* devices;
  const char* visible;
  const char* memory;
  const char* named;
};

TEST(Settings, RefusesInvalidValues) {
  const Wrong cases[] = {{"-1", nullptr, nullptr, "TWIN_DEVICES is '-1'"},
                         {"many", nullptr, nullptr, "TWIN_DEVICES is 'many'"},
                         {"2", "2", nullptr, "ASCEND_RT_VISIBLE_DEVICES is '2'"},
                         {"2", "0,0", nullptr, "ASCEND_RT_VISIBLE_DEVICES is '0,0'"},
                         {"2", "0,x", nullptr, "ASCEND_RT_VISIBLE_DEVICES is '0,x'"},
                         {nullptr, nullptr, "0", "TWIN_DEVICE_MEMORY_GB is '0'"},
                         {nullptr, nullptr, "8GB", "TWIN_DEVICE_MEMORY_GB is '8GB'"}};
  for (const Wrong& wrong : cases) {
    const Settings parsed = ParseSettings(wrong.devices, wrong.visible, wrong.memory);
    EXPECT_EQ(parsed.devices, 0) << wrong.named;
    EXPECT_NE(parsed.problem.find(wrong.named), std::string::npos) << parsed.problem;
  }
}

}  // namespace
}  // namespace twin
