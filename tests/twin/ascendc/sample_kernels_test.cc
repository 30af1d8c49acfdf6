// The kernels in the style of third-party code: launched with structs by value and by address, in each build,
// their results against a plain loop.
#include <cmath>
#include <vector>

#include "aclrtlaunch_sample_add.h"
#include "aclrtlaunch_sample_quantize.h"
#include "aclrtlaunch_sample_rows.h"
#include "tests/twin/ascendc/sample_tiling.h"
#include "tests/twin/ascendc/samples.h"
#include "twin/ascendc/include/ascendc/types.h"

namespace ascendc_test {
namespace {

INSTANTIATE_TEST_SUITE_P(Each, Samples, kEachBuild);

TEST_P(Samples, AddTakesItsTilingByValueAndByAddress) {
  const AddTiling tiling{8 * 2048, 8};
  half *x = Memory<half>(tiling.total_length), *y = Memory<half>(tiling.total_length),
       *z = Memory<half>(tiling.total_length);
  for (uint32_t i = 0; i < tiling.total_length; ++i) x[i] = half(i % 100), y[i] = half(i % 7);
  for (const bool by_address : {false, true}) {
    aclrtMemset(z, tiling.total_length * 2, 0, tiling.total_length * 2);
    if (by_address) ACLRT_LAUNCH_KERNEL(sample_add)(8, stream_, x, y, z, &tiling);
    if (!by_address) ACLRT_LAUNCH_KERNEL(sample_add)(8, stream_, x, y, z, tiling);
    ExpectDone();
    for (uint32_t i = 0; i < tiling.total_length; ++i)
      ASSERT_EQ(static_cast<float>(z[i]), static_cast<float>(i % 100 + i % 7)) << i;
  }
}

TEST_P(Samples, QuantizePacksFourBits) {
  constexpr int kRows = 3, kColumns = 64, kGroups = kRows * kColumns / 32;
  float* x = Memory<float>(kRows * kColumns);
  int8_t* packed = Memory<int8_t>(kRows * kColumns / 2);
  half* scales = Memory<half>(kGroups);
  int64_t* sizes = Memory<int64_t>(2);
  sizes[0] = kRows, sizes[1] = kColumns;
  for (int i = 0; i < kRows * kColumns; ++i) x[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i / 32 + 1);
  ACLRT_LAUNCH_KERNEL(sample_quantize)(4, stream_, x, packed, scales, sizes);
  ExpectDone();
  for (int i = 0; i < kRows * kColumns; ++i) {
    const int byte = packed[i / 2], four = i % 2 == 0 ? static_cast<int8_t>(byte << 4) >> 4 : byte >> 4;
    const float scale = static_cast<float>(scales[i / 32]);
    ASSERT_NEAR(static_cast<float>(four) * scale, x[i], 0.51f * scale) << i;
  }
}

TEST_P(Samples, RowsSynchroniseBetweenTwoPasses) {
  const samples::RowTiling tiling{11, 37, 0.5f};
  float *x = Memory<float>(11 * 37), *y = Memory<float>(2 * 11 * 37), *total = Memory<float>(8);
  for (int i = 0; i < 11 * 37; ++i) x[i] = std::cos(static_cast<float>(i)) * 4;
  ACLRT_LAUNCH_KERNEL(sample_rows)(4, stream_, x, y, total, tiling);
  ExpectDone();
  double squares = 0;
  for (int row = 0; row < 11; ++row) {
    double sum = 0;
    for (int i = 0; i < 37; ++i) sum += std::exp(x[row * 37 + i] * 0.5);
    for (int i = 0; i < 37; ++i) {
      const double wanted = std::exp(x[row * 37 + i] * 0.5) / sum;
      squares += wanted * wanted;
      ASSERT_NEAR(y[row * 37 + i], wanted, 1e-6);
      ASSERT_EQ(y[(11 + row) * 37 + i], y[row * 37 + i]);
    }
  }
  EXPECT_NEAR(total[0], squares, 1e-5);
}

}  // namespace
}  // namespace ascendc_test
