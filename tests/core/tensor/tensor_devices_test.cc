// The list of devices against the schema, and what `auto` means under each provider of ACL.
#include "core/tensor/tensor_devices.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/base/error.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

std::string Chosen(DeviceChoice choice, const std::string& provider) {
  return ChooseTensorDevice(choice, provider).name;
}

TEST(TensorDevices, TheSchemaNamesTheListAndNothingElse) {
  std::set<std::string> listed = {"auto"}, offered;
  for (const TensorDeviceEntry& entry : TensorDevices()) listed.insert(entry.name);
  const auto& schema = *DeviceChoice_descriptor();
  for (int i = 0; i < schema.value_count(); ++i) offered.insert(SpellingOf(*schema.value(i)));
  EXPECT_EQ(listed, offered);
}

TEST(TensorDevices, AutoTakesWhatTheProgramWasBuiltFor) {
  EXPECT_EQ(Chosen(DEVICE_AUTO, "ascend"), "npu");
  EXPECT_EQ(Chosen(DEVICE_AUTO, "cuda"), "cuda");
  EXPECT_EQ(Chosen(DEVICE_AUTO, "twin"), "cpu");  // the twin's npu is used only by name
  EXPECT_EQ(Chosen(DEVICE_NPU, "twin"), "npu");
}

TEST(TensorDevices, TheCpuIsAvailableUnderEveryProvider) {
  for (const char* provider : {"ascend", "cuda", "twin"}) EXPECT_EQ(Chosen(DEVICE_CPU, provider), "cpu");
}

TEST(TensorDevices, ADeviceOfAnotherProviderIsRefusedWithWhatToBuild) {
  const auto refusal = [](DeviceChoice choice, const char* provider) {
    try {
      return "not refused: " + Chosen(choice, provider);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 2);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal(DEVICE_CUDA, "twin"),
            "device: cuda: this program was built with TRIREME_CANN=twin; build with TRIREME_CANN=cuda "
            "(docs/cuda.md)");
  EXPECT_NE(refusal(DEVICE_CUDA, "ascend").find("TRIREME_CANN=ascend"), std::string::npos);
  EXPECT_NE(refusal(DEVICE_NPU, "cuda").find("TRIREME_CANN=cuda"), std::string::npos);
}

TEST(TensorDevices, TheCpuComputesSynchronously) {
  const TensorDevice& cpu = TensorDevice::Cpu();
  EXPECT_TRUE(cpu.is_cpu());
  EXPECT_EQ(cpu.compute(), nullptr);
  EXPECT_EQ(cpu.software().rfind("libtorch ", 0), 0u) << cpu.software();
  EXPECT_GT(cpu.peak_bytes(), 0);
}

}  // namespace
}  // namespace trireme
