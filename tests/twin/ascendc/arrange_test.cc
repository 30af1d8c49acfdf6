// Reductions in the device's order, comparisons, selection, gathering, sorting.
#include "tests/twin/ascendc/on_core.h"

namespace ascendc_test {
namespace {

// The specified order: adjacent elements within 256 bytes, rounded at each step; then repeats in order.
template <typename T>
float TreeOf(std::vector<float> lane) {
  while (lane.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i + 1 < lane.size(); i += 2) next.push_back(static_cast<T>(lane[i] + lane[i + 1]));
    if (lane.size() % 2 == 1) next.push_back(lane.back());
    lane = next;
  }
  return lane[0];
}

template <typename T>
void ExpectSums() {
  const size_t lanes = 256 / sizeof(T);
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 100);
  for (size_t n = 1; n <= 37 * lanes + 3; n += 1 + n / 9) {
    std::vector<T> x(n);
    for (T& value : x) value = static_cast<T>(normal(random));
    float wanted = 0;
    for (size_t first = 0; first < n; first += lanes) {
      const float part = TreeOf<T>(Floats(std::vector<T>(x.begin() + first, x.begin() + std::min(n, first + lanes))));
      wanted = first == 0 ? part : static_cast<float>(static_cast<T>(wanted + part));
    }
    OnCore core;
    const LocalTensor<T> dst = core.Empty<T>(8);
    ReduceSum(dst, core.Tensor(x), dst, static_cast<int32_t>(n));
    ASSERT_EQ(static_cast<float>(core.Values(dst, 1)[0]), wanted) << n;
  }
}

TEST(Reduce, SumsAreTreesInOrder) {
  ExpectSums<float>();
  ExpectSums<half>();
  OnCore core;
  const LocalTensor<float> dst = core.Tensor(std::vector<float>{5.0f});
  ReduceSum(dst, dst, dst, 0);
  EXPECT_EQ(core.Values(dst, 1)[0], 5.0f);
}

TEST(Reduce, WholeBlockAndPair) {
  OnCore core;
  const std::vector<float> x = Random<float>(128);
  const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(std::vector<float>(64, -1.0f));
  const auto sum = [&](size_t begin, size_t end) {
    float total = 0;
    for (size_t i = begin; i < end; ++i) total += x[i];
    return total;
  };
  WholeReduceSum(dst, src, 64, 2, 1, 1, 8);
  EXPECT_EQ(core.Values(dst, 3), (std::vector<float>{sum(0, 64), sum(64, 128), -1.0f}));
  WholeReduceSum(dst, src, 10, 2, 3, 1, 8);
  EXPECT_EQ(core.Values(dst, 4)[3], sum(64, 74));
  BlockReduceSum(dst, src, 2, 64, 1, 1, 8);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(core.Values(dst, 16)[i], sum(8 * i, 8 * i + 8));
  PairReduceSum(dst, src, 2, 64, 1, 1, 8);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(core.Values(dst, 64)[i], sum(2 * i, 2 * i + 2));
  RepeatReduceSum(dst, src, 1, 5, 1, 1, 1, 8);
  EXPECT_EQ(core.Values(dst, 1)[0], sum(0, 5));
}

TEST(Reduce, ExtremesHaveTheirIndex) {
  OnCore core;
  std::vector<float> x(100, 1.0f);
  x[37] = x[80] = 9.0f, x[51] = -4.0f;
  const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(std::vector<float>(16));
  ReduceMax(dst, src, dst, 100, true);
  EXPECT_EQ(core.Values(dst, 1)[0], 9.0f);
  EXPECT_EQ(core.Values(dst.ReinterpretCast<uint32_t>(), 2)[1], 37u);
  ReduceMin(dst, src, dst, 100, true);
  EXPECT_EQ(core.Values(dst.ReinterpretCast<uint32_t>(), 2)[1], 51u);
  WholeReduceMax(dst, src, 64, 1, 1, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);
  EXPECT_EQ(core.Values(dst.ReinterpretCast<uint32_t>(), 1)[0], 37u);
  EXPECT_EQ(core.Values(dst, 2)[1], 9.0f);
  WholeReduceMin(dst, src, 64, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  EXPECT_EQ(core.Values(dst, 1)[0], -4.0f);
  BlockReduceMax(dst, src, 1, 64, 1, 1, 8);
  EXPECT_EQ(core.Values(dst, 8), (std::vector<float>{1, 1, 1, 1, 9, 1, 1, 1}));
}

// Long tensors are processed in chunks: the best may be in any of them, with equal values and NaN before and
// after.
TEST(Reduce, ExtremesOfLongTensors) {
  for (const uint32_t at : {0u, 511u, 512u, 700u, 1535u}) {
    OnCore core;
    std::vector<float> x(1536, -2.0f);
    std::vector<half> y(1536, half(-2));
    x[(at + 100) % 1536] = kNan, y[(at + 100) % 1536] = half(kNan);
    for (uint32_t i = at; i < 1536; i += 600) x[i] = 5.0f, y[i] = half(5);
    const LocalTensor<float> dst = core.Empty<float>(8);
    const LocalTensor<half> narrow = core.Empty<half>(16);
    ReduceMax(dst, core.Tensor(x), dst, 1536, true);
    EXPECT_EQ(core.Values(dst, 1)[0], 5.0f);
    EXPECT_EQ(core.Values(dst.ReinterpretCast<uint32_t>(), 2)[1], at);
    ReduceMax(narrow, core.Tensor(y), narrow, 1536, true);
    EXPECT_EQ(core.Values(narrow.ReinterpretCast<uint16_t>(), 2)[1], at);
    ReduceMin(dst, core.Tensor(x), dst, 1536, true);
    EXPECT_EQ(core.Values(dst.ReinterpretCast<uint32_t>(), 2)[1], at == 0 ? 1u : 0u);
  }
}

TEST(Compare, LongTensors) {
  OnCore core;
  const std::vector<float> a = Random<float>(1088, 1);
  const LocalTensor<float> x = core.Tensor(a), picked = core.Empty<float>(1088);
  const LocalTensor<uint8_t> bits = core.Empty<uint8_t>(136);
  CompareScalar(bits, x, 0.25f, CMPMODE::LT, 1088);
  Select(picked, bits, x, 9.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 1085);
  const std::vector<float> found = core.Values(picked, 1085);
  for (int i = 0; i < 1085; ++i) ASSERT_EQ(found[i], a[i] < 0.25f ? a[i] : 9.0f) << i;
}

TEST(Compare, OneBitPerElementLowestFirst) {
  OnCore core;
  const std::vector<float> a = Random<float>(64, 1), b = Random<float>(64, 2);
  const LocalTensor<float> x = core.Tensor(a), y = core.Tensor(b), picked = core.Tensor(a);
  const LocalTensor<uint8_t> bits = core.Empty<uint8_t>(8);
  const std::vector<std::pair<CMPMODE, std::function<bool(float, float)>>> modes = {
      {CMPMODE::LT, std::less<float>()},          {CMPMODE::GT, std::greater<float>()},
      {CMPMODE::EQ, std::equal_to<float>()},      {CMPMODE::LE, std::less_equal<float>()},
      {CMPMODE::GE, std::greater_equal<float>()}, {CMPMODE::NE, std::not_equal_to<float>()}};
  for (const auto& [mode, holds] : modes) {
    Compare(bits, x, y, mode, 64);
    std::vector<uint8_t> found = core.Values(bits, 8);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(found[i / 8] >> (i % 8) & 1, holds(a[i], b[i])) << i;
    Select(picked, bits, x, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(core.Values(picked, 64)[i], holds(a[i], b[i]) ? a[i] : b[i]);
    CompareScalar(bits, x, 0.5f, mode, 64);
    found = core.Values(bits, 8);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(found[i / 8] >> (i % 8) & 1, holds(a[i], 0.5f)) << i;
    Select(picked, bits, x, -7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 50);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(core.Values(picked, 64)[i], holds(a[i], 0.5f) ? a[i] : -7.0f);
  }
  const LocalTensor<int32_t> whole = core.Tensor(Random<int32_t>(64));
  EXPECT_NO_THROW(Compare(bits, whole, whole, CMPMODE::EQ, 64));
  EXPECT_THROW(Compare(bits, whole, whole, CMPMODE::LT, 64), std::runtime_error);
}

TEST(Select, ARegisterStartsOverEachRepeat) {
  OnCore core;
  const LocalTensor<float> ones = core.Tensor(std::vector<float>(128, 1.0f)),
                           zeros = core.Tensor(std::vector<float>(128)), dst = core.Empty<float>(128);
  const LocalTensor<uint8_t> bits = core.Tensor(std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 0, 0});
  Select(dst, bits, ones, zeros, SELMODE::VSEL_CMPMASK_SPR, 128);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(core.Values(dst, 128)[i], i % 64 == 0 ? 1.0f : 0.0f);
}

TEST(Arrange, FillsAndGathers) {
  OnCore core;
  const std::vector<float> x = Random<float>(128);
  const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(std::vector<float>(128, -1.0f));
  Gather(dst, src, core.Tensor(std::vector<uint32_t>{8, 0, 4}), 4, 3);
  EXPECT_EQ(core.Values(dst, 4), (std::vector<float>{x[3], x[1], x[2], -1.0f}));
  uint64_t taken = 0;
  GatherMask(dst, src, 2, false, 0, {1, 2, 8, 0}, taken);  // odd lanes of two repeats
  EXPECT_EQ(taken, 64u);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(core.Values(dst, 64)[i], x[2 * i + 1]);
  GatherMask(dst, src, 3, true, 10, {1, 1, 8, 0}, taken);  // lanes 0, 4, 8 of the first 10
  EXPECT_EQ(taken, 3u);
  EXPECT_EQ(core.Values(dst, 3)[2], x[8]);
  GatherMask(dst, src, core.Tensor(std::vector<uint32_t>{0x80000001u, 0, 0, 0, 0, 0, 0, 0}), true, 32, {1, 1, 8, 8},
             taken);
  EXPECT_EQ(taken, 2u);
  EXPECT_EQ(core.Values(dst, 2)[1], x[31]);
  Brcb(dst, src, 1, {1, 8});
  for (int i = 0; i < 64; ++i) EXPECT_EQ(core.Values(dst, 64)[i], x[i / 8]);
  const LocalTensor<int32_t> index = core.Empty<int32_t>(20);
  CreateVecIndex(index, 5, 20u);
  EXPECT_EQ(core.Values(index, 20)[19], 24);
  const std::vector<half> square = Random<half>(256);
  const LocalTensor<half> turned = core.Empty<half>(256);
  Transpose(turned, core.Tensor(square));
  EXPECT_EQ(core.Values(turned, 256)[3 * 16 + 5].bits, square[5 * 16 + 3].bits);
}

TEST(Sort, ThirtyTwoAtATimeThenMerged) {
  OnCore core;
  std::vector<float> x = Random<float>(64, 9);
  std::vector<uint32_t> places(64);
  for (uint32_t i = 0; i < 64; ++i) places[i] = i;
  const LocalTensor<float> pairs = core.Empty<float>(128), merged = core.Empty<float>(128);
  Sort32(pairs, core.Tensor(x), core.Tensor(places), 2);
  const uint16_t lengths[4] = {32, 32, 0, 0};
  MrgSort(merged, {pairs, pairs[64], pairs, pairs}, {lengths, false, 3, 1});
  const std::vector<float> values = core.Values(merged, 128);
  const std::vector<uint32_t> indices = core.Values(merged.ReinterpretCast<uint32_t>(), 128);
  std::vector<uint32_t> wanted = places;
  std::stable_sort(wanted.begin(), wanted.end(), [&](uint32_t a, uint32_t b) { return x[a] > x[b]; });
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(values[2 * i], x[wanted[i]]);
    EXPECT_EQ(indices[2 * i + 1], wanted[i]);
  }
}

}  // namespace
}  // namespace ascendc_test
