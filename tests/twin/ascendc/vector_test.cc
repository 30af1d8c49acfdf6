// Elementwise functions: every type and tail by count, masks, strides, the mask registers, casts by mode.
#include "tests/twin/ascendc/on_core.h"

namespace ascendc_test {
namespace {

constexpr size_t kCounts[] = {1, 7, 8, 31, 64, 65, 200};

template <typename T>
using Binary = void (*)(const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<T>&, const int32_t&, Where);

template <typename T>
void ExpectBinary(const char* name, Binary<T> function, const std::function<float(float, float, float)>& wanted) {
  for (const size_t n : kCounts) {
    OnCore core;
    const std::vector<T> a = Random<T>(n, 1), b = Random<T>(n, 2), d = Random<T>(n + 1, 3);
    const LocalTensor<T> dst = core.Tensor(d);
    function(dst, core.Tensor(a), core.Tensor(b), static_cast<int32_t>(n), Where::Here());
    const std::vector<T> found = core.Values(dst, n + 1);
    for (size_t i = 0; i < n; ++i) {
      const T value =
          static_cast<T>(wanted(static_cast<float>(d[i]), static_cast<float>(a[i]), static_cast<float>(b[i])));
      ASSERT_EQ(static_cast<float>(found[i]), static_cast<float>(value)) << name << " " << i << " of " << n;
    }
    ASSERT_EQ(static_cast<float>(found[n]), static_cast<float>(d[n])) << name << " wrote past its count";
  }
}
#define EXPECT_BINARY(name, T, expression)                                           \
  ExpectBinary<T>(#name, &AscendC::name<T>, [](float d, float a, float b) -> float { \
    (void)d;                                                                         \
    return expression;                                                               \
  })
#define EXPECT_BINARY_ALL(name, expression)                                      \
  EXPECT_BINARY(name, float, expression), EXPECT_BINARY(name, half, expression), \
      EXPECT_BINARY(name, int16_t, expression), EXPECT_BINARY(name, int32_t, expression)

TEST(Binary, ByCount) {
  EXPECT_BINARY_ALL(Add, a + b);
  EXPECT_BINARY_ALL(Sub, a - b);
  EXPECT_BINARY_ALL(Mul, a * b);
  EXPECT_BINARY_ALL(Max, std::max(a, b));
  EXPECT_BINARY_ALL(Min, std::min(a, b));
  EXPECT_BINARY(AddRelu, float, std::max(a + b, 0.0f));
  EXPECT_BINARY(MulAddDst, float, d + a * b);
  EXPECT_BINARY(MulAddDst, half, d + a * b);
  EXPECT_BINARY(FusedMulAdd, float, a* d + b);
  EXPECT_BINARY(And, int16_t, static_cast<float>(static_cast<int>(a) & static_cast<int>(b)));
  EXPECT_BINARY(Or, int16_t, static_cast<float>(static_cast<int>(a) | static_cast<int>(b)));
}

TEST(Binary, NothingToDo) {
  OnCore core;
  const LocalTensor<float> dst = core.Tensor(std::vector<float>{3.0f});
  Add(dst, dst, dst, 0);
  EXPECT_EQ(core.Values(dst, 1)[0], 3.0f);
}

TEST(Binary, IntegersWrapAround) {
  OnCore core;
  const LocalTensor<int32_t> a = core.Tensor(std::vector<int32_t>{INT32_MAX, INT32_MIN});
  Adds(a, a, 1, 1);
  EXPECT_EQ(core.Values(a, 1)[0], INT32_MIN);
}

TEST(Binary, BitsOfBytes) {
  OnCore core;
  const LocalTensor<uint8_t> a = core.Tensor(std::vector<uint8_t>{0xF0, 0xFF, 0x81}),
                             b = core.Tensor(std::vector<uint8_t>{0x3C, 0x01, 0x7E}),
                             both = core.Tensor(std::vector<uint8_t>(3));
  And(both, a, b, 3);
  EXPECT_EQ(core.Values(both, 3), (std::vector<uint8_t>{0x30, 0x01, 0x00}));
  Or(both, a, b, 3);
  EXPECT_EQ(core.Values(both, 3), (std::vector<uint8_t>{0xFC, 0xFF, 0xFF}));
}

TEST(Binary, MaximumAndMinimumPropagateNan) {
  OnCore core;
  const LocalTensor<float> a = core.Tensor(std::vector<float>{kNan, 1.0f}),
                           b = core.Tensor(std::vector<float>{1.0f, kNan});
  Max(a, a, b, 2);
  EXPECT_TRUE(std::isnan(core.Values(a, 1)[0]) && std::isnan(core.Values(a, 2)[1]));
}

TEST(MaskAndRepeat, StridesBetweenBlocksAndRepeats) {
  OnCore core;
  const std::vector<float> a = Random<float>(512, 1), b = Random<float>(512, 2);
  const LocalTensor<float> dst = core.Tensor(std::vector<float>(512, -9.0f));
  // 20 lanes of 64, two repeats; blocks of src0 two apart, src1 always the same block, dst contiguous.
  Add(dst, core.Tensor(a), core.Tensor(b), 20, 2, {1, 2, 0, 8, 16, 8});
  const std::vector<float> found = core.Values(dst, 512);
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int lane = 0; lane < 64; ++lane) {
      const int block = lane / 8, at = lane % 8;
      const float sum = a[repeat * 128 + block * 16 + at] + b[repeat * 64 + at];
      ASSERT_EQ(found[repeat * 64 + lane], lane < 20 ? sum : -9.0f) << repeat << " " << lane;
    }
  }
}

TEST(MaskAndRepeat, BitsAndRegisterAndCounter) {
  OnCore core;
  const LocalTensor<half> ones = core.Tensor(std::vector<half>(300, half(1)));
  const auto fresh = [&] { return core.Tensor(std::vector<half>(300, half(0))); };
  const auto set = [&](const LocalTensor<half>& t) { return Floats(core.Values(t, 300)); };
  uint64_t bits[2] = {0x5, 0x8000000000000000u};
  LocalTensor<half> dst = fresh();
  Adds(dst, ones, half(1), bits, 1, {1, 1, 8, 8});
  for (int i = 0; i < 300; ++i) EXPECT_EQ(set(dst)[i], i == 0 || i == 2 || i == 127 ? 2.0f : 0.0f) << i;
  dst = fresh();
  SetVectorMask<half, MaskMode::NORMAL>(3);
  Add<half, false>(dst, ones, ones, MASK_PLACEHOLDER, 2, {1, 1, 1, 8, 8, 8});
  for (int i = 0; i < 300; ++i) EXPECT_EQ(set(dst)[i], i % 128 < 3 && i < 256 ? 2.0f : 0.0f) << i;
  dst = fresh();
  SetMaskCount();
  SetVectorMask<half, MaskMode::COUNTER>(200);
  Exp<half, false>(dst, fresh(), MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
  SetMaskNorm();
  ResetMask();
  for (int i = 0; i < 300; ++i) EXPECT_EQ(set(dst)[i], i < 200 ? 1.0f : 0.0f) << i;
}

// Any mask, strides and offsets, also overlapping ones, against the rule: a repeat reads all its lanes, then
// writes the masked ones.
TEST(MaskAndRepeat, AnyStridesAndOffsets) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int turn = 0; turn < 400; ++turn) {
    OnCore core;
    std::vector<float> memory = Random<float>(4096, static_cast<unsigned>(turn));
    const LocalTensor<float> all = core.Tensor(memory);
    const bool simple = pick(0, 1) == 0;
    int at[3], block[3], step[3];  // of dst, src0, src1
    for (int k = 0; k < 3; ++k) {
      at[k] = k > 0 && pick(0, 2) == 0 ? at[0] : pick(0, 100) * 8;
      block[k] = simple ? 1 : pick(0, 3), step[k] = simple ? pick(0, 2) * 4 : pick(0, 10);
    }
    uint64_t bits[2] = {pick(0, 2) == 0 ? random() * uint64_t{0x9e3779b97f4a7c15u} : ~uint64_t{0}, 0};
    const uint64_t lanes = static_cast<uint64_t>(pick(1, 64));
    const bool by_bits = pick(0, 1) == 0;
    const auto repeats = static_cast<uint8_t>(pick(1, 5));
    const auto u8 = [](int v) { return static_cast<uint8_t>(v); };
    const BinaryRepeatParams p{u8(block[0]), u8(block[1]), u8(block[2]), u8(step[0]), u8(step[1]), u8(step[2])};
    const auto tensor = [&](int k) { return all[static_cast<uint32_t>(at[k])]; };
    if (by_bits) Add(tensor(0), tensor(1), tensor(2), bits, repeats, p);
    if (!by_bits) Add(tensor(0), tensor(1), tensor(2), lanes, repeats, p);
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const auto place = [&](int k, int lane) {
        return at[k] + repeat * step[k] * 8 + lane / 8 * block[k] * 8 + lane % 8;
      };
      float sums[64];
      for (int lane = 0; lane < 64; ++lane) sums[lane] = memory[place(1, lane)] + memory[place(2, lane)];
      for (int lane = 0; lane < 64; ++lane) {
        const bool active = by_bits ? (bits[0] >> lane & 1) != 0 : static_cast<uint64_t>(lane) < lanes;
        if (active) memory[place(0, lane)] = sums[lane];
      }
    }
    ASSERT_EQ(core.Values(all, 4096), memory) << turn;
  }
}

TEST(Scalar, ByCount) {
  for (const size_t n : kCounts) {
    OnCore core;
    const std::vector<float> a = Random<float>(n, 1);
    const LocalTensor<float> x = core.Tensor(a), dst = core.Tensor(Random<float>(n, 3));
    const auto expect = [&](const char* name, const std::function<float(float)>& wanted) {
      const std::vector<float> found = core.Values(dst, n);
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(found[i], wanted(a[i])) << name;
    };
    Adds(dst, x, 1.5f, static_cast<int32_t>(n)), expect("Adds", [](float v) { return v + 1.5f; });
    Muls(dst, x, -2.0f, static_cast<int32_t>(n)), expect("Muls", [](float v) { return v * -2.0f; });
    Maxs(dst, x, 0.5f, static_cast<int32_t>(n)), expect("Maxs", [](float v) { return std::max(v, 0.5f); });
    Mins(dst, x, 0.5f, static_cast<int32_t>(n)), expect("Mins", [](float v) { return std::min(v, 0.5f); });
    LeakyRelu(dst, x, 0.25f, static_cast<int32_t>(n)), expect("LeakyRelu", [](float v) { return v < 0 ? v / 4 : v; });
    Duplicate(dst, 4.0f, static_cast<int32_t>(n));
    Axpy(dst, x, 2.0f, static_cast<int32_t>(n)), expect("Axpy", [](float v) { return 4.0f + v * 2.0f; });
  }
  OnCore core;
  const LocalTensor<int32_t> bits = core.Tensor(std::vector<int32_t>{-8, 5});
  ShiftRight(bits, bits, 1, 2);
  EXPECT_EQ(core.Values(bits, 2), (std::vector<int32_t>{-4, 2}));
  ShiftLeft(bits, bits, 30, 2);
  EXPECT_EQ(core.Values(bits, 2)[1], INT32_MIN);
}

TEST(Unary, ErrorsAreAFewUlp) {
  OnCore core;
  std::vector<float> x;
  for (float v = -103.0f; v < 90.0f; v += 0.037f) x.push_back(v);
  const auto n = static_cast<int32_t>(x.size());
  const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(x);
  Exp(dst, src, n);
  std::vector<float> found = core.Values(dst, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = std::exp(static_cast<double>(x[i]));
    if (wanted > 3.4028235e38)
      EXPECT_EQ(found[i], kInfinity);
    else
      EXPECT_NEAR(found[i], wanted, 2.5e-7 * wanted + 3e-45) << x[i];
  }
  Abs(dst, src, n), Ln(dst, dst, n);
  found = core.Values(dst, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = std::log(std::fabs(static_cast<double>(x[i])));
    EXPECT_NEAR(found[i], wanted, 2e-7 * std::fabs(wanted) + 1e-7) << x[i];
  }
}

TEST(Unary, EndsOfTheRange) {
  OnCore core;
  const LocalTensor<float> x =
      core.Tensor(std::vector<float>{kInfinity, -kInfinity, kNan, 0.0f, -1.0f, 1e-42f, 4.0f, 1e30f});
  const LocalTensor<float> y = core.Tensor(std::vector<float>(8));
  Exp(y, x, 8);
  std::vector<float> found = core.Values(y, 8);
  EXPECT_EQ(found[0], kInfinity);
  EXPECT_EQ(found[1], 0.0f);
  EXPECT_TRUE(std::isnan(found[2]));
  EXPECT_EQ(found[3], 1.0f);
  EXPECT_EQ(found[7], kInfinity);
  Ln(y, x, 8);
  found = core.Values(y, 8);
  EXPECT_EQ(found[0], kInfinity);
  EXPECT_EQ(found[3], -kInfinity);
  EXPECT_TRUE(std::isnan(found[1]) && std::isnan(found[2]) && std::isnan(found[4]));
  EXPECT_NEAR(found[5], std::log(1e-42), 1e-2);
  Sqrt(y, x, 8);
  EXPECT_EQ(core.Values(y, 7)[6], 2.0f);
  Rsqrt(y, x, 8);
  EXPECT_EQ(core.Values(y, 7)[6], 0.5f);
  Reciprocal(y, x, 8);
  EXPECT_EQ(core.Values(y, 7)[6], 0.25f);
  Relu(y, x, 8);
  EXPECT_EQ(core.Values(y, 5)[4], 0.0f);
}

TEST(Cast, FloatToIntegerByMode) {
  const std::vector<float> x = {2.5f, 3.5f, -2.5f, -3.5f, 2.4f, -2.6f, 3e9f, -3e9f, kNan};
  const std::vector<std::pair<RoundMode, std::vector<int32_t>>> wanted = {
      {RoundMode::CAST_RINT, {2, 4, -2, -4, 2, -3, INT32_MAX, INT32_MIN, 0}},
      {RoundMode::CAST_FLOOR, {2, 3, -3, -4, 2, -3, INT32_MAX, INT32_MIN, 0}},
      {RoundMode::CAST_CEIL, {3, 4, -2, -3, 3, -2, INT32_MAX, INT32_MIN, 0}},
      {RoundMode::CAST_ROUND, {3, 4, -3, -4, 2, -3, INT32_MAX, INT32_MIN, 0}},
      {RoundMode::CAST_TRUNC, {2, 3, -2, -3, 2, -2, INT32_MAX, INT32_MIN, 0}}};
  for (const auto& [mode, values] : wanted) {
    OnCore core;
    const LocalTensor<int32_t> dst = core.Empty<int32_t>(x.size());
    Cast(dst, core.Tensor(x), mode, static_cast<uint32_t>(x.size()));
    EXPECT_EQ(core.Values(dst, x.size()), values) << static_cast<int>(mode);
  }
}

TEST(Cast, FloatToHalfAndBfloat16ByMode) {
  OnCore core;
  const float low = 1.0f, step = 0x1p-10f, third = low + step / 4;  // between 1 and its neighbour
  const std::vector<float> x = {third, -third, low + step / 2, low + 1.5f * step};
  const LocalTensor<float> src = core.Tensor(x);
  const LocalTensor<half> dst = core.Empty<half>(4);
  const auto by = [&](RoundMode mode) {
    Cast(dst, src, mode, 4);
    return Floats(core.Values(dst, 4));
  };
  EXPECT_EQ(by(RoundMode::CAST_NONE), (std::vector<float>{1, -1, 1, 1 + 2 * step}));
  EXPECT_EQ(by(RoundMode::CAST_RINT), by(RoundMode::CAST_NONE));
  EXPECT_EQ(by(RoundMode::CAST_FLOOR), (std::vector<float>{1, -1 - step, 1, 1 + step}));
  EXPECT_EQ(by(RoundMode::CAST_CEIL), (std::vector<float>{1 + step, -1, 1 + step, 1 + 2 * step}));
  EXPECT_EQ(by(RoundMode::CAST_ROUND), (std::vector<float>{1, -1, 1 + step, 1 + 2 * step}));
  EXPECT_EQ(by(RoundMode::CAST_TRUNC), (std::vector<float>{1, -1, 1, 1 + step}));
  EXPECT_EQ(by(RoundMode::CAST_ODD), (std::vector<float>{1 + step, -1 - step, 1 + step, 1 + step}));
  const LocalTensor<bfloat16_t> narrow = core.Empty<bfloat16_t>(4);
  Cast(narrow, core.Tensor(std::vector<float>{1 + 0x1p-9f, -1 - 0x1p-9f, 1e-40f, 3e38f}), RoundMode::CAST_CEIL, 4);
  EXPECT_EQ(core.Values(narrow, 4)[0].bits, 0x3f81);
  EXPECT_EQ(core.Values(narrow, 4)[1].bits, 0xbf80);
}

// Wide conversion instructions agree with scalar conversion: every half, and the midpoint of each pair.
TEST(Cast, EveryHalfBothWays) {
  constexpr uint32_t kPart = 8192 + 5;
  for (uint32_t first = 0; first < 65536; first += kPart) {
    OnCore core;
    std::vector<half> x(kPart);
    std::vector<float> between(kPart);
    for (uint32_t i = 0; i < kPart; ++i) {
      half next;
      x[i].bits = static_cast<uint16_t>(first + i), next.bits = static_cast<uint16_t>(first + i + 1);
      between[i] = (static_cast<float>(x[i]) + static_cast<float>(next)) / 2;
    }
    const LocalTensor<half> src = core.Tensor(x), narrow = core.Empty<half>(kPart);
    const LocalTensor<float> wide = core.Empty<float>(kPart), middle = core.Tensor(between);
    Cast(wide, src, RoundMode::CAST_NONE, kPart);
    Cast(narrow, middle, RoundMode::CAST_NONE, kPart);
    const std::vector<float> found = core.Values(wide, kPart);
    const std::vector<half> rounded = core.Values(narrow, kPart);
    for (uint32_t i = 0; i < kPart; ++i) {
      if (std::isnan(static_cast<float>(x[i])) || std::isnan(between[i])) continue;
      ASSERT_EQ(found[i], static_cast<float>(x[i])) << first + i;
      ASSERT_EQ(rounded[i].bits, half(between[i]).bits) << first + i;
    }
  }
}

// Numbers around each integer and each half-integer, by every mode, to int32_t and to integral floats.
TEST(Cast, WholeNumbersByMode) {
  std::vector<float> x;
  for (int i = -300; i <= 300; ++i) {
    for (const float at : {static_cast<float>(i), static_cast<float>(i) + 0.5f, 8388600.0f + static_cast<float>(i)})
      x.insert(x.end(), {std::nextafter(at, -kInfinity), at, std::nextafter(at, kInfinity)});
  }
  const auto n = static_cast<uint32_t>(x.size());
  const std::vector<std::pair<RoundMode, std::function<double(double)>>> modes = {
      {RoundMode::CAST_RINT, [](double v) { return std::nearbyint(v); }},
      {RoundMode::CAST_FLOOR, [](double v) { return std::floor(v); }},
      {RoundMode::CAST_CEIL, [](double v) { return std::ceil(v); }},
      {RoundMode::CAST_ROUND, [](double v) { return std::round(v); }},
      {RoundMode::CAST_TRUNC, [](double v) { return std::trunc(v); }}};
  OnCore core;
  const LocalTensor<float> src = core.Tensor(x), whole = core.Empty<float>(n);
  const LocalTensor<int32_t> integer = core.Empty<int32_t>(n);
  for (const auto& [mode, rounded] : modes) {
    Cast(whole, src, mode, n), Cast(integer, src, mode, n);
    const std::vector<float> floats = core.Values(whole, n);
    const std::vector<int32_t> integers = core.Values(integer, n);
    for (uint32_t i = 0; i < n; ++i) {
      ASSERT_EQ(floats[i], rounded(x[i])) << x[i];
      ASSERT_EQ(integers[i], rounded(x[i])) << x[i];
    }
  }
}

TEST(Cast, OtherPairs) {
  OnCore core;
  const LocalTensor<half> h = core.Tensor(std::vector<half>{1.5f, -300.0f, 300.0f, -2.5f});
  const LocalTensor<int8_t> i8 = core.Empty<int8_t>(32);
  Cast(i8, h, RoundMode::CAST_RINT, 4);
  EXPECT_EQ(core.Values(i8, 4), (std::vector<int8_t>{2, -128, 127, -2}));
  const LocalTensor<int4b_t> i4 = core.Tensor(std::vector<int8_t>(32)).ReinterpretCast<int4b_t>();
  Cast(i4, h, RoundMode::CAST_RINT, 4);
  Cast(h, i4, RoundMode::CAST_NONE, 4);
  EXPECT_EQ(Floats(core.Values(h, 4)), (std::vector<float>{2, -8, 7, -2}));
  const LocalTensor<float> f = core.Empty<float>(2);
  Cast(f, core.Tensor(std::vector<int32_t>{16777217, -16777217}), RoundMode::CAST_FLOOR, 2);
  EXPECT_EQ(core.Values(f, 2), (std::vector<float>{16777216.0f, -16777218.0f}));
  const LocalTensor<int64_t> wide = core.Empty<int64_t>(2);
  Cast(wide, core.Tensor(std::vector<int32_t>{-5, 7}), RoundMode::CAST_NONE, 2);
  EXPECT_EQ(core.Values(wide, 2), (std::vector<int64_t>{-5, 7}));
  SetDeqScale(half(0.5f));
  Cast(h, core.Tensor(std::vector<int32_t>{6, -3}), RoundMode::CAST_NONE, 2);
  EXPECT_EQ(Floats(core.Values(h, 2)), (std::vector<float>{3.0f, -1.5f}));
}

TEST(Cast, ByRepeatBetweenWidths) {  // a repeat is as many elements as the wider type has
  OnCore core;
  const std::vector<half> x = Random<half>(256);
  const LocalTensor<float> dst = core.Tensor(std::vector<float>(128, -9.0f));
  Cast(dst, core.Tensor(x), RoundMode::CAST_NONE, 10, 2, {1, 1, 8, 4});
  const std::vector<float> found = core.Values(dst, 128);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(found[i], i % 64 < 10 ? static_cast<float>(x[i]) : -9.0f) << i;
}

}  // namespace
}  // namespace ascendc_test
