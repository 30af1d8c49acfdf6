// Kernels with features that third-party code uses: their results against a plain loop, in each build.
#include <cmath>
#include <string>
#include <vector>

#include "aclrtlaunch_hypot.h"
#include "aclrtlaunch_sample_dequantize.h"
#include "aclrtlaunch_sample_scale_float.h"
#include "aclrtlaunch_sample_scale_half.h"
#include "aclrtlaunch_sample_tiled.h"
#include "aclrtlaunch_unsynchronised.h"
#include "tests/twin/ascendc/sample_tiling.h"
#include "tests/twin/ascendc/samples.h"
#include "twin/ascendc/include/ascendc/types.h"

namespace ascendc_test {
namespace {

class Interface : public Samples {};
INSTANTIATE_TEST_SUITE_P(Each, Interface, kEachBuild);

TEST_P(Interface, KernelsDeclaredByAMacroWithArgumentsOfAnyName) {
  float *x = Memory<float>(32), *y = Memory<float>(32);
  half *a = Memory<half>(32), *b = Memory<half>(32);
  for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i), a[i] = half(i);
  ACLRT_LAUNCH_KERNEL(sample_scale_float)(1, stream_, x, y, 8, 4);
  ACLRT_LAUNCH_KERNEL(sample_scale_half)(1, stream_, a, b, 16, 2);
  ExpectDone();
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(y[i], static_cast<float>(3 * i));
    EXPECT_EQ(static_cast<float>(b[i]), static_cast<float>(2 * i));
  }
}

TEST_P(Interface, FourBitsAreReadInPlace) {
  constexpr int kGroups = 5;
  auto* packed = Memory<uint8_t>(kGroups * 16 + kGroups * sizeof(half) + 32);
  auto* scales = reinterpret_cast<half*>(packed + kGroups * 16);
  float* out = Memory<float>(kGroups * 32);
  for (int i = 0; i < kGroups * 16; ++i) packed[i] = static_cast<uint8_t>(37 * i + 11);
  for (int g = 0; g < kGroups; ++g) scales[g] = half(0.25f * static_cast<float>(g + 1));
  ACLRT_LAUNCH_KERNEL(sample_dequantize)(1, stream_, packed, scales, out, kGroups);
  ExpectDone();
  for (int i = 0; i < kGroups * 32; ++i) {
    const int byte = static_cast<int8_t>(packed[i / 2]);
    const int four = i % 2 == 0 ? static_cast<int8_t>(byte << 4) >> 4 : byte >> 4;
    ASSERT_EQ(out[i], static_cast<float>(four) * 0.25f * static_cast<float>(i / 32 + 1)) << i;
  }
}

TEST_P(Interface, AKernelMayModifyItsTilingAndEnqueueATensorAgain) {
  float *x = Memory<float>(64), *y = Memory<float>(64);
  auto* tiling = Memory<samples::RowTiling>(1);
  *tiling = {1, 64, 1.5f};
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
  ACLRT_LAUNCH_KERNEL(sample_tiled)(1, stream_, x, y, tiling);
  ExpectDone();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], 2.5f * static_cast<float>(i));
}

TEST_P(Interface, AKernelMayHaveTheNameOfACFunction) {
  float *x = Memory<float>(24), *y = Memory<float>(24), *out = Memory<float>(32);
  for (int i = 0; i < 20; ++i) x[i] = 0.25f * static_cast<float>(i), y[i] = 1.0f;
  ACLRT_LAUNCH_KERNEL(hypot)(1, stream_, x, y, out, nullptr, 20, 32);
  ExpectDone();
  for (int i = 0; i < 20; ++i) EXPECT_FLOAT_EQ(out[i], std::min(std::hypot(x[i], y[i]), 3.14159265f)) << i;
  for (int i = 20; i < 32; ++i) EXPECT_EQ(out[i], -1.0f) << i;
  ACLRT_LAUNCH_KERNEL(hypot)(1, stream_, x, y, out, nullptr, 24, 16);
  EXPECT_NE(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_NE(std::string(aclGetRecentErrMsg()).find("ASSERT: n <= room"), std::string::npos);
}

// Built with --cce-auto-sync=off: strict unless the launch overrides it.
TEST_P(Interface, ALibraryMayDoWithoutAutomaticSynchronisation) {
  float *x = Memory<float>(64), *y = Memory<float>(64);
  if (GetParam() == Build::kStrict) unsetenv("TWIN_AUTO_SYNC");
  ACLRT_LAUNCH_KERNEL(unsynchronised)(1, stream_, x, y);
  if (GetParam() != Build::kStrict) return ExpectDone();
  EXPECT_NE(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_NE(std::string(aclGetRecentErrMsg()).find("while PIPE_V may still write it"), std::string::npos);
}

}  // namespace
}  // namespace ascendc_test
