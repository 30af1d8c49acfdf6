// A program that was built for GPUs, on a machine that has none: one clear sentence. This also links the provider,
// on machines that compile and never run it.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/device/cann_info.h"
#include "core/device/device.h"

namespace trireme {
namespace {

TEST(CudaProvider, NamesItself) { EXPECT_EQ(CannProvider(), "cuda"); }

TEST(CudaProvider, WithoutADriverSaysSoInOneSentence) {
  std::string said;
  try {
    static_cast<void>(Device::Count());
    GTEST_SKIP() << "this machine has a GPU";
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  EXPECT_TRUE(said.find("this machine has no NVIDIA driver") != std::string::npos ||
              said.find("install a newer driver") != std::string::npos ||
              said.find("no CUDA-capable device") != std::string::npos)
      << said;
  EXPECT_NE(said.find("build with TRIREME_CANN=twin"), std::string::npos) << said;
}

}  // namespace
}  // namespace trireme
