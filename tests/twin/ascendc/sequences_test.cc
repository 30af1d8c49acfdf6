// Progressions, cumulative sums, broadcasts and top-k, against a plain loop.
#include "tests/twin/ascendc/on_core.h"

namespace ascendc_test {
namespace {

constexpr CumSumConfig kDown{false, false, true};
constexpr CumSumConfig kAlong{true, false, true};

TEST(Sequences, ProgressionsHaveEqualSteps) {
  OnCore core;
  const LocalTensor<float> steps = core.Empty<float>(70);
  ArithProgression(steps, 0.5f, 0.25f, 70);
  const LocalTensor<int32_t> whole = core.Empty<int32_t>(16);
  ArithProgression(whole, int32_t{-3}, int32_t{2}, 9);
  const auto found = core.Values(steps, 70);
  const auto integers = core.Values(whole, 9);
  for (int i = 0; i < 70; ++i) EXPECT_EQ(found[i], 0.5f + 0.25f * static_cast<float>(i));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(integers[i], 2 * i - 3);
}

TEST(Sequences, CumulativeSumsAlongRowsAndFromRowToRow) {
  OnCore core;
  const std::vector<half> given = Random<half>(3 * 16);
  const LocalTensor<half> src = core.Tensor(given), along = core.Empty<half>(48), down = core.Empty<half>(48),
                          last = core.Empty<half>(16), last_down = core.Empty<half>(16);
  CumSum<half, kAlong>(along, last, src, {3, 16});
  CumSum<half, kDown>(down, last_down, src, core.Empty<uint8_t>(64), {3, 16});
  const auto rows = core.Values(along, 48), columns = core.Values(down, 48), end = core.Values(last, 16),
             end_down = core.Values(last_down, 16);
  for (int row = 0; row < 3; ++row) {
    float sum = 0;
    for (int i = 0; i < 16; ++i) {
      sum += static_cast<float>(given[row * 16 + i]);
      float above = 0;
      for (int r = 0; r <= row; ++r) above += static_cast<float>(given[r * 16 + i]);
      EXPECT_EQ(static_cast<float>(rows[row * 16 + i]), sum);
      EXPECT_EQ(static_cast<float>(columns[row * 16 + i]), above);
      EXPECT_EQ(end[i].bits, rows[32 + i].bits);
      EXPECT_EQ(end_down[i].bits, columns[32 + i].bits);
    }
  }
}

TEST(Sequences, BroadCastsAColumnOrARow) {
  OnCore core;
  const LocalTensor<float> column = core.Tensor(std::vector<float>{1, 2, 3, 4}),
                           row = core.Tensor(std::vector<float>{5, 6, 7, 8, 9, 10, 11, 12}),
                           wide = core.Empty<float>(32), tall = core.Empty<float>(24);
  const uint32_t wide_shape[] = {4, 8}, column_shape[] = {4, 1}, tall_shape[] = {3, 8}, row_shape[] = {1, 8};
  BroadCast<float, 2, 1>(wide, column, wide_shape, column_shape);
  BroadCast<float, 2, 0>(tall, row, tall_shape, row_shape, core.Empty<uint8_t>(32));
  const auto a = core.Values(wide, 32), b = core.Values(tall, 24);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(a[i], static_cast<float>(i / 8 + 1));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(b[i], static_cast<float>(i % 8 + 5));
}

TEST(Sequences, UnPadTakesColumnsOffTheRight) {
  OnCore core;
  std::vector<float> given(3 * 8);
  for (int i = 0; i < 24; ++i) given[i] = static_cast<float>(i);
  const LocalTensor<float> src = core.Tensor(given), dst = core.Empty<float>(24);
  UnPad(dst, src, {0, 3}, {3, 8});
  const auto found = core.Values(dst, 15);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(found[i], static_cast<float>(i / 5 * 8 + i % 5));
}

TEST(Sequences, NumbersAreRoundedUpAndCast) {
  static_assert(AlignUp(17, 8) == 24 && AlignUp(16u, 8) == 16 && DivCeil(17, 8u) == 3 && Ceil(16, 8) == 2);
  static_assert(AlignUp(5, 0) == 0 && AscendCUtils::GetBitSize(sizeof(uint32_t)) == 32);
  static_assert(::min(3, 2u) == 2 && ::max(2.5f, 2) == 2.5f && ::min(uint64_t{1} << 40, 7) == 7);
  static_assert(ScalarGetSFFValue<1>(0b1000) == 3 && ScalarGetSFFValue<0>(0b0111) == 3 &&
                ScalarGetSFFValue<1>(0) == -1);
  static_assert(sbitset0(0b1100, 2) == 0b1000 && sbitset1(0b1000, 0) == 0b1001);
  EXPECT_EQ((ScalarCast<float, int32_t, RoundMode::CAST_FLOOR>(-1.5f)), -2);
  EXPECT_EQ((ScalarCast<float, int32_t, RoundMode::CAST_CEIL>(-1.5f)), -1);
  EXPECT_EQ((ScalarCast<float, int32_t, RoundMode::CAST_RINT>(2.5f)), 2);
}

TEST(Sequences, TopKOfRowsWithTheirIndices) {
  OnCore core;
  std::vector<float> given(2 * 64, 1e9f);  // elements after n do not count
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 50; ++i) given[row * 64 + i] = static_cast<float>((i * 7 + row) % 25);
  const LocalTensor<float> src = core.Tensor(given), value = core.Empty<float>(16);
  const LocalTensor<int32_t> index = core.Empty<int32_t>(16), no_index;
  const LocalTensor<bool> done = core.Tensor(std::vector<uint8_t>(32, 0)).ReinterpretCast<bool>();
  TopK<float>(value, index, src, no_index, done, 3, TopkTiling(), {2, 64, 50});
  auto values = core.Values(value, 16);
  auto indices = core.Values(index, 16);
  for (int row = 0; row < 2; ++row) {
    EXPECT_EQ(values[row * 8], 24);
    EXPECT_EQ(values[row * 8 + 1], 24);  // of two equal elements the earlier comes first
    EXPECT_EQ(values[row * 8 + 2], 23);
    EXPECT_LT(indices[row * 8], indices[row * 8 + 1]);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(given[row * 64 + indices[row * 8 + i]], values[row * 8 + i]);
  }
  // Small mode: rows of 32, contiguous results; the smallest, given indices, a finished row.
  const LocalTensor<int32_t> names = core.Empty<int32_t>(32);
  ArithProgression(names, int32_t{100}, int32_t{1}, 32);
  const LocalTensor<bool> second = core.Tensor([] {
                                         std::vector<uint8_t> flags(32, 0);
                                         flags[1] = 1;
                                         return flags;
                                       }())
                                       .ReinterpretCast<bool>();
  TopK<float, true, true, false, TopKMode::TOPK_NSMALL>(value, index, src, names, second, 2, TopkTiling(), {2, 32, 32},
                                                        false);
  values = core.Values(value, 4);
  indices = core.Values(index, 4);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(given[indices[0] - 100], 0);
  EXPECT_EQ(indices[2], 32);
  EXPECT_EQ(indices[3], 32);
}

TEST(FourBits, AreCopiedByCountTimesSize) {
  OnCore core;
  std::vector<int8_t> bytes(96);
  for (int i = 0; i < 96; ++i) bytes[i] = static_cast<int8_t>(i);
  GlobalTensor<int4b_t> source;
  source.SetGlobalBuffer(reinterpret_cast<int4b_t*>(bytes.data()), 192);
  EXPECT_EQ(source.GetSize(), 192u);
  EXPECT_EQ(source[64].GetSize(), 128u);
  const LocalTensor<int8_t> raw = core.Tensor(std::vector<int8_t>(64, -1));
  DataCopy(raw.ReinterpretCast<int4b_t>(), source[64], 32);  // from byte 32 on; a block of 32 bytes
  const auto found = core.Values(raw, 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(found[i], i < 32 ? i + 32 : -1);
  DataCopyPad(raw.ReinterpretCast<int4b_t>(), source, {1, 16, 0, 0, 0}, {false, 0, 0, int4b_t{}});
  EXPECT_EQ(core.Values(raw, 16)[15], 15);
}

}  // namespace
}  // namespace ascendc_test
