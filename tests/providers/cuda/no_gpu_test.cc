// A program built for GPUs, on a machine that has none, or hides them from it: one clear sentence. This also
// links the provider on machines that compile it and never run it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/device/cann_info.h"
#include "core/device/device.h"

namespace trireme {
namespace {

// Before the first CUDA call, which reads it: no GPU of this machine is visible.
[[maybe_unused]] const int hidden = setenv("CUDA_VISIBLE_DEVICES", "", /*overwrite=*/1);

TEST(CudaProvider, NamesItself) { EXPECT_EQ(CannProvider(), "cuda"); }

TEST(CudaProvider, WithoutAGpuSaysSoInOneSentence) {
  std::string said;
  try {
    static_cast<void>(Device::Count());
    FAIL() << "a GPU is visible although CUDA_VISIBLE_DEVICES is empty; was CUDA initialised earlier?";
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
