// The composed functions against the C library in fp64: math, activations, softmax, norms, sums, sorting.
#include "tests/twin/ascendc/on_core.h"

namespace ascendc_test {
namespace {

using Function = std::function<double(double)>;

// Values in the function's domain, in float and in half, with a count, without, and with a buffer.
#define EXPECT_MATH(name, wanted, scale, shift)                                                        \
  {                                                                                                    \
    OnCore core;                                                                                       \
    std::vector<float> x = Random<float>(64, 4);                                                       \
    for (float& value : x) value = value * (scale) + (shift);                                          \
    const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(std::vector<float>(64));          \
    const LocalTensor<half> narrow = core.Tensor(std::vector<half>(x.begin(), x.end())),               \
                            result = core.Tensor(std::vector<half>(64));                               \
    name(dst, src, 63u), name(result, narrow);                                                         \
    EXPECT_EQ(core.Values(dst, 64)[63], 0.0f) << #name;                                                \
    name(dst, src, LocalTensor<uint8_t>(), 64u);                                                       \
    ExpectNear(#name, x, core.Values(dst, 64), wanted, 1e-6);                                          \
    ExpectNear(#name, Floats(core.Values(narrow, 64)), Floats(core.Values(result, 64)), wanted, 1e-3); \
  }

void ExpectNear(const char* name, const std::vector<float>& x, const std::vector<float>& found, const Function& wanted,
                double tolerance) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = wanted(x[i]);
    ASSERT_NEAR(found[i], value, tolerance * (1 + std::fabs(value))) << name << " of " << x[i];
  }
}

TEST(Math, EachAgainstTheLibrary) {
  EXPECT_MATH(Sin, [](double v) { return std::sin(v); }, 1, 0)
  EXPECT_MATH(Cos, [](double v) { return std::cos(v); }, 1, 0)
  EXPECT_MATH(Tan, [](double v) { return std::tan(v); }, 0.2f, 0)
  EXPECT_MATH(Asin, [](double v) { return std::asin(v); }, 0.1f, 0)
  EXPECT_MATH(Acos, [](double v) { return std::acos(v); }, 0.1f, 0)
  EXPECT_MATH(Atan, [](double v) { return std::atan(v); }, 1, 0)
  EXPECT_MATH(Sinh, [](double v) { return std::sinh(v); }, 1, 0)
  EXPECT_MATH(Cosh, [](double v) { return std::cosh(v); }, 1, 0)
  EXPECT_MATH(Tanh, [](double v) { return std::tanh(v); }, 1, 0)
  EXPECT_MATH(Asinh, [](double v) { return std::asinh(v); }, 1, 0)
  EXPECT_MATH(Acosh, [](double v) { return std::acosh(v); }, 1, 7)
  EXPECT_MATH(Atanh, [](double v) { return std::atanh(v); }, 0.1f, 0)
  EXPECT_MATH(Sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, 1, 0)
  EXPECT_MATH(Erf, [](double v) { return std::erf(v); }, 1, 0)
  EXPECT_MATH(Erfc, [](double v) { return std::erfc(v); }, 1, 0)
  EXPECT_MATH(Log, [](double v) { return std::log(v); }, 1, 7)
  EXPECT_MATH(Log2, [](double v) { return std::log2(v); }, 1, 7)
  EXPECT_MATH(Log10, [](double v) { return std::log10(v); }, 1, 7)
  EXPECT_MATH(Ceil, [](double v) { return std::ceil(v); }, 1, 0)
  EXPECT_MATH(Floor, [](double v) { return std::floor(v); }, 1, 0)
  EXPECT_MATH(Round, [](double v) { return std::nearbyint(v); }, 1, 0)
  EXPECT_MATH(Trunc, [](double v) { return std::trunc(v); }, 1, 0)
  EXPECT_MATH(Frac, [](double v) { return v - std::trunc(v); }, 1, 0)
  EXPECT_MATH(Sign, [](double v) { return v > 0 ? 1.0 : (v < 0 ? -1.0 : 0.0); }, 1, 0)
}

double Gate(double v, double beta) { return v / (1 + std::exp(-beta * v)); }

TEST(Activation, EachAgainstTheLibrary) {
  OnCore core;
  const std::vector<float> x = Random<float>(70, 4);
  const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(x), three = core.Tensor(std::vector<float>(70, 3));
  const auto near = [&](const char* name, const Function& wanted) {
    ExpectNear(name, x, core.Values(dst, 70), wanted, 1e-6);
  };
  Silu(dst, src, 70), near("Silu", [](double v) { return Gate(v, 1); });
  Swish(dst, src, 70, 1.7f), near("Swish", [](double v) { return Gate(v, 1.7); });
  SwiGLU(dst, three, src, 0.5f, 70), near("SwiGLU", [](double v) { return 3 * Gate(v, 0.5); });
  SwiGLU(dst, three, src, 1.0f, LocalTensor<uint8_t>(), 70), near("SwiGLU", [](double v) { return 3 * Gate(v, 1); });
  Gelu(dst, src, 70), near("Gelu", [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  });
  Power(dst, three, src, 70), near("Power", [](double v) { return std::pow(3.0, v); });
  Fmod(dst, src, three, 70), near("Fmod", [](double v) { return std::fmod(v, 3.0); });
  Power(dst, src, 2.0f, 70), near("Power", [](double v) { return v * v; });
  ClampMin(dst, src, 0.5f, 70), near("ClampMin", [](double v) { return std::max(v, 0.5); });
  ClampMax(dst, src, 0.5f, 70), near("ClampMax", [](double v) { return std::min(v, 0.5); });
}

struct Softmax {
  double largest = -HUGE_VAL, sum = 0;
  explicit Softmax(const std::vector<float>& row) {
    for (const float v : row) largest = std::max<double>(largest, v);
    for (const float v : row) sum += std::exp(v - largest);
  }
};

TEST(SoftMax, OfRowsAndWithGivenSums) {
  OnCore core;
  const std::vector<float> x = Random<float>(64, 4);
  const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(x), sum = core.Empty<float>(32),
                           max = core.Empty<float>(32);
  const SoftMaxShapeInfo shape{4, 16, 4, 15};
  const auto expect = [&] {
    for (int row = 0; row < 4; ++row) {
      const std::vector<float> line(x.begin() + row * 16, x.begin() + row * 16 + 15);
      const Softmax wanted(line);
      const std::vector<float> found = core.Values(dst[row * 16], 16);
      for (int i = 0; i < 15; ++i) ASSERT_NEAR(found[i], std::exp(line[i] - wanted.largest) / wanted.sum, 1e-6);
      ASSERT_EQ(found[15], x[row * 16 + 15]);  // not part of the row
      for (int i = 0; i < 8; ++i) {
        ASSERT_NEAR(core.Values(sum[row * 8], 8)[i], wanted.sum, 1e-5);
        ASSERT_EQ(core.Values(max[row * 8], 8)[i], wanted.largest);
      }
    }
  };
  SoftMax(dst, sum, max, src, {}, shape), expect();
  SimpleSoftMax(dst, sum, max, src, {}, shape), expect();
  LocalTensor<float> shaped = src;
  const uint32_t sizes[] = {4, 16};
  shaped.SetShapeInfo(ShapeInfo(2, sizes));
  SoftMax(dst, sum, max, shaped, LocalTensor<uint8_t>(), {});
  float total = 0;
  for (const float v : core.Values(dst, 16)) total += v;
  EXPECT_NEAR(total, 1.0f, 1e-6);
  EXPECT_THROW(SoftMax(dst, sum, max, src, {}), std::runtime_error);  // no shape at all
}

TEST(SoftMax, InPiecesEqualsTheWhole) {
  OnCore core;
  const std::vector<half> x = Random<half>(64, 4);  // one row in two pieces
  const LocalTensor<half> src = core.Tensor(x), dst = core.Tensor(std::vector<half>(64)),
                          shrinks = core.Empty<half>(16);
  const LocalTensor<float> sum = core.Empty<float>(8), max = core.Empty<float>(8), before = core.Empty<float>(8),
                           largest = core.Empty<float>(8);
  const SoftMaxShapeInfo piece{1, 32, 1, 32};
  SoftmaxFlashV2<half>(dst, before, largest, src, shrinks, before, largest, {}, piece);
  SoftmaxFlashV2<half, true>(dst[32], sum, max, src[32], shrinks, before, largest, {}, piece);
  const Softmax wanted(Floats(x)), first(Floats(std::vector<half>(x.begin(), x.begin() + 32)));
  EXPECT_NEAR(core.Values(sum, 8)[7], wanted.sum, 1e-4);
  EXPECT_EQ(core.Values(max, 8)[7], wanted.largest);
  EXPECT_NEAR(static_cast<float>(core.Values(shrinks, 16)[15]), std::exp(first.largest - wanted.largest), 1e-3);
  for (int i = 0; i < 64; ++i) {
    const double from = i < 32 ? first.largest : wanted.largest;
    ASSERT_NEAR(static_cast<float>(core.Values(dst, 64)[i]), std::exp(static_cast<float>(x[i]) - from), 1e-3) << i;
  }
}

TEST(Norm, OfRows) {
  OnCore core;
  const std::vector<float> x = Random<float>(48, 4), gamma = Random<float>(16, 5), beta = Random<float>(16, 6);
  const LocalTensor<float> src = core.Tensor(x), dst = core.Tensor(std::vector<float>(48, -9.0f)),
                           g = core.Tensor(gamma), b = core.Tensor(beta), mean = core.Empty<float>(8),
                           variance = core.Empty<float>(8);
  RmsNorm(dst, src, g, 1e-5f, RmsNormTiling{1, 3, 16, 15});
  const auto moments = [&](int row) {
    double first = 0, second = 0;
    for (int i = 0; i < 15; ++i) first += x[row * 16 + i] / 15, second += x[row * 16 + i] * x[row * 16 + i] / 15;
    return std::pair(first, second);
  };
  for (int i = 0; i < 48; ++i) {
    const double wanted = i % 16 == 15 ? -9 : x[i] * gamma[i % 16] / std::sqrt(moments(i / 16).second + 1e-5);
    ASSERT_NEAR(core.Values(dst, 48)[i], wanted, 1e-5) << i;
  }
  LayerNormTiling tiling{3, 1, 16, 15};
  LayerNorm(dst, mean, variance, src, g, b, LocalTensor<uint8_t>(), 1e-5f, tiling);
  for (int i = 0; i < 48; ++i) {
    const auto [first, second] = moments(i / 16);
    const double spread = second - first * first;
    const double wanted = (x[i] - first) / std::sqrt(spread + 1e-5) * gamma[i % 16] + beta[i % 16];
    ASSERT_NEAR(core.Values(dst, 48)[i], i % 16 == 15 ? -9 : wanted, 1e-4) << i;
    ASSERT_NEAR(core.Values(mean, 3)[i / 16], first, 1e-5);
    ASSERT_NEAR(core.Values(variance, 3)[i / 16], spread, 1e-4);
  }
}

TEST(Sum, OfRows) {
  OnCore core;
  const std::vector<half> x = Random<half>(48, 4);
  const LocalTensor<half> src = core.Tensor(x), dst = core.Empty<half>(16);
  for (const bool mean : {false, true}) {
    if (mean) Mean(dst, src, {3, 16, 5});
    if (!mean) Sum(dst, src, LocalTensor<uint8_t>(), {3, 16, 5});
    for (int row = 0; row < 3; ++row) {
      float total = 0;
      for (int i = 0; i < 5; ++i) total += static_cast<float>(x[row * 16 + i]);
      EXPECT_EQ(static_cast<float>(core.Values(dst, 3)[row]), static_cast<float>(half(mean ? total / 5 : total)));
    }
  }
}

// 128 values with their indices, sorted in groups of 32 and merged four at a time, twice.
template <typename T>
void ExpectSorted() {
  OnCore core;
  std::vector<T> x(256);
  for (int i = 0; i < 256; ++i) x[i] = static_cast<T>(i * 37 % 256);
  std::vector<uint32_t> places(256);
  for (uint32_t i = 0; i < 256; ++i) places[i] = i;
  constexpr uint32_t kEntry = 8 / sizeof(T);
  const LocalTensor<T> pairs = core.Empty<T>(256 * kEntry), merged = core.Empty<T>(256 * kEntry),
                       values = core.Empty<T>(256);
  const LocalTensor<uint32_t> index = core.Tensor(places), found = core.Empty<uint32_t>(256);
  const auto expect = [&](int first, int last) {
    std::vector<uint32_t> wanted(places.begin() + first, places.begin() + last);
    std::sort(wanted.begin(), wanted.end(), [&](uint32_t a, uint32_t b) { return x[a] > x[b]; });
    for (int i = first; i < last; ++i) {
      ASSERT_EQ(core.Values(found, 256)[i], wanted[i - first]) << i;
      ASSERT_EQ(static_cast<float>(core.Values(values, 256)[i]), static_cast<float>(x[wanted[i - first]]));
    }
  };
  LocalTensor<T> concat, tmp = core.Empty<T>(256 * kEntry);
  Concat(concat, core.Tensor(x), tmp, 16);
  Sort<T, false>(pairs, concat, index, tmp, 8);
  Extract(values, found, pairs, 8);
  for (int first = 0; first < 256; first += 32) expect(first, first + 32);
  const uint16_t lengths[4] = {32, 32, 32, 32};
  EXPECT_EQ(GetSortLen<T>(32), GetSortOffset<T>(32));
  const MrgSortSrcList<T> lists{pairs, pairs[GetSortOffset<T>(32)], pairs[GetSortOffset<T>(64)],
                                pairs[GetSortOffset<T>(96)]};
  MrgSort(merged, lists, {lengths, false, 15, 2});
  Extract(values, found, merged, 8);
  expect(0, 128), expect(128, 256);
  Sort<T, true>(pairs, concat, index, tmp, 8);
  Extract(values, found, pairs, 8);
  expect(0, 256);
}

TEST(Sort, MergesFourListsOverRepeats) {
  ExpectSorted<float>();
  ExpectSorted<half>();
}

TEST(Sort, StopsWhenTheFirstListEnds) {
  OnCore core;
  const auto entries = [&](const std::vector<float>& values) {
    std::vector<float> all;
    for (const float v : values) all.insert(all.end(), {v, 0.0f});
    return core.Tensor(all);
  };
  const LocalTensor<float> dst = core.Empty<float>(16);
  const uint16_t lengths[4] = {3, 2, 0, 0};
  uint32_t taken[4];
  MrgSort<float, true>(dst, {entries({9, 5, 1}), entries({8, 7}), {}, {}}, lengths, taken, 3, 1);
  EXPECT_EQ(core.Values(dst, 6)[4], 7.0f);
  EXPECT_EQ(taken[0], 1u);
  EXPECT_EQ(taken[1], 2u);
  uint16_t list[4];
  GetMrgSortResult(list[0], list[1], list[2], list[3]);
  EXPECT_EQ(list[0] + list[1] + list[2] + list[3], 3);
}

}  // namespace
}  // namespace ascendc_test
