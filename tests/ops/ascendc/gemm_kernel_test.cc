// The kernel gemm against products in fp64: every kind of tail, transposition, type and output, tilings of several
// blocks and splits. Sums in fp32 of k products differ from the exact ones by at most k + 2 roundings of the sum of
// their magnitudes, however they are ordered; a result in 16 bits by one rounding more. TRIREME_ALL_CASES=1: a thousand
// shapes.
#include "ops/gemm/ascendc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "ascendc/types.h"
#include "core/base/error.h"

extern "C" void* twinCallersThreads(uint32_t threads);

namespace trireme::ascendc {
namespace {

struct Case {
  GemmShape shape;
  Element element = Element::kBfloat16;
  bool bias = false, fp32 = false, accumulate = false;
  GemmTiling tiling;  // blocks 0: the host's own
  std::string Text() const {
    return Concat(shape.m, " x ", shape.n, " x ", shape.k, shape.transposed_a ? ", A transposed" : "",
                  shape.transposed_b ? ", B transposed" : "", ", element ", static_cast<int>(element),
                  bias ? ", bias" : "", fp32 ? ", fp32" : "", accumulate ? ", accumulate" : "", ", blocks of ",
                  tiling.block_m, " x ", tiling.block_n, " on ", tiling.blocks, ", ", tiling.splits, " splits");
  }
};

class Matrix {  // of one of the three types, with its values
 public:
  Matrix(Element element, size_t size) : element_(element), bytes_(size * BytesOf(element) + 64), values_(size) {}
  void Set(size_t i, double value) {
    if (element_ == Element::kFloat) At<float>()[i] = static_cast<float>(value);
    if (element_ == Element::kHalf) At<half>()[i] = static_cast<float>(value);
    if (element_ == Element::kBfloat16) At<bfloat16_t>()[i] = static_cast<float>(value);
    values_[i] = Get(i);
  }
  double Get(size_t i) const {
    if (element_ == Element::kFloat) return At<float>()[i];
    return element_ == Element::kHalf ? float{At<half>()[i]} : float{At<bfloat16_t>()[i]};
  }
  void Fill(std::mt19937& random) {
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < values_.size(); ++i) Set(i, normal(random));
  }
  void* data() { return bytes_.data(); }
  const std::vector<double>& values() const { return values_; }

 private:
  template <typename T>
  T* At() const {
    return reinterpret_cast<T*>(const_cast<uint8_t*>(bytes_.data()));
  }
  Element element_;
  std::vector<uint8_t> bytes_;
  std::vector<double> values_;
};

struct Exact {
  double value = 0, magnitude = 0;
};
Exact Product(const Matrix& a, const Matrix& b, const GemmShape& s, size_t row, size_t column) {
  Exact exact;
  for (size_t k = 0; k < s.k; ++k) {
    const double product = a.values()[s.transposed_a ? k * s.m + row : row * s.k + k] *
                           b.values()[s.transposed_b ? column * s.k + k : k * s.n + column];
    exact.value += product, exact.magnitude += std::abs(product);
  }
  return exact;
}

double RoundingOf(Element element) {
  return element == Element::kFloat ? 0x1p-24 : (element == Element::kHalf ? 0x1p-11 : 0x1p-8);
}

void Check(const Case& c, unsigned seed) {
  SCOPED_TRACE(c.Text());
  std::mt19937 random(seed);
  const GemmShape& s = c.shape;
  const Element out = c.fp32 ? Element::kFloat : c.element;
  Matrix a(c.element, s.m * s.k), b(c.element, s.k * s.n), result(out, s.m * s.n), bias(Element::kFloat, s.n);
  for (Matrix* matrix : {&a, &b, &bias, &result}) matrix->Fill(random);
  const std::vector<double> before = result.values();
  const KernelPlace place{.stream = twinCallersThreads(1), .cores = 10};
  const GemmOutput to{result.data(), c.fp32, c.accumulate};
  const auto* offset = c.bias ? static_cast<const float*>(bias.data()) : nullptr;
  if (c.tiling.blocks == 0) {
    Gemm(place, c.element, s, a.data(), b.data(), offset, to);
  } else {
    Gemm(place, c.element, s, a.data(), b.data(), offset, to, c.tiling);
  }
  for (size_t i = 0; i < s.m * s.n; ++i) {
    Exact exact = Product(a, b, s, i / s.n, i % s.n);
    if (c.bias) exact.value += bias.values()[i % s.n], exact.magnitude += std::abs(bias.values()[i % s.n]);
    if (c.accumulate) exact.value += before[i], exact.magnitude += std::abs(before[i]);
    const double bound = static_cast<double>(s.k + c.tiling.splits + 2) * 0x1p-24 * exact.magnitude +
                         RoundingOf(out) * std::abs(exact.value) + 1e-7;
    ASSERT_LE(std::abs(result.Get(i) - exact.value), bound)
        << "row " << i / s.n << ", column " << i % s.n << ": " << result.Get(i) << ", exactly " << exact.value;
  }
}

// Sizes around a fractal, a block and a tile of k, in turn for each dim, with every type, transposition and output.
TEST(GemmKernel, TailsTransposedOperandsAndOutputs) {
  const uint64_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 64, 70, 129}, depths[] = {1, 7, 8, 16, 31, 64, 65, 130, 257, 300};
  unsigned seed = 0;
  for (const Element element : {Element::kFloat, Element::kHalf, Element::kBfloat16}) {
    for (unsigned i = 0; i < 40; ++i, ++seed) {
      const Case c{.shape = {.m = sizes[i % 10],
                             .n = sizes[(i * 3 + 1 + i / 10) % 10],
                             .k = depths[(i * 7 + 2 + i / 10) % 10],
                             .transposed_a = i % 2 == 1,
                             .transposed_b = i / 2 % 2 == 1},
                   .element = element,
                   .bias = i % 3 == 0,
                   .fp32 = i % 5 < 3 || element == Element::kFloat,
                   .accumulate = i % 5 == 1,
                   .tiling = {.blocks = 0}};
      Check(c, seed);
    }
  }
}

// Small blocks, so that there are many: bands of the swizzle, cores with several blocks and with none, splits of k.
TEST(GemmKernel, BlocksBandsAndSplits) {
  unsigned seed = 1000;
  for (const uint32_t splits : {1u, 2u, 3u}) {
    for (const uint32_t cores : {1u, 3u, 7u, 60u}) {
      const Case c{.shape = {.m = 16 * 7 + 3,
                             .n = 16 * 5 + 9,
                             .k = 700,
                             .transposed_a = cores == 3,
                             .transposed_b = splits == 2},
                   .bias = splits != 3,
                   .fp32 = true,
                   .accumulate = splits > 1,
                   .tiling = {.blocks = cores, .block_m = 16, .block_n = 32, .splits = splits}};
      Check(c, ++seed);
    }
  }
}

// The largest blocks, which fill L1, L0A, L0B and L0C, in both forms.
TEST(GemmKernel, FullBuffers) {
  Check(
      {.shape = {.m = 130, .n = 260, .k = 600}, .bias = true, .tiling = {.blocks = 2, .block_m = 128, .block_n = 256}},
      1);
  Check({.shape = {.m = 260, .n = 130, .k = 300, .transposed_a = true},
         .element = Element::kFloat,
         .fp32 = true,
         .tiling = {.blocks = 3, .block_m = 256, .block_n = 128}},
        2);
}

// Rows further apart than one instruction can express.
TEST(GemmKernel, WideRows) {
  Check({.shape = {.m = 3, .n = 2, .k = 66000, .transposed_b = true}, .fp32 = true, .tiling = {.blocks = 0}}, 3);
  Check({.shape = {.m = 2, .n = 66000, .k = 17}, .element = Element::kHalf, .tiling = {.blocks = 0}}, 4);
}

TEST(GemmKernel, RefusesWhatItCannotDo) {
  float value = 0;
  const KernelPlace place{.stream = twinCallersThreads(1), .cores = 2};
  EXPECT_THROW(Gemm(place, Element::kHalf, {1, 1, 0}, &value, &value, nullptr, {&value}), std::exception);
  EXPECT_THROW(Gemm(place, Element::kHalf, {1, 1, 1}, &value, &value, nullptr, {&value, false, true}), std::exception);
  EXPECT_THROW(Gemm(place, Element::kHalf, {16, 16, 512}, &value, &value, nullptr, {&value, true}, {1, 16, 16, 2}),
               std::exception);
}

TEST(GemmKernel, ManyRandomShapes) {
  const bool all = std::getenv("TRIREME_ALL_CASES") != nullptr;
  const uint64_t side = all ? 300 : 100, depth = all ? 600 : 400;
  for (unsigned seed = 0; seed < (all ? 1000 : 80); ++seed) {
    std::mt19937 random(seed);
    const auto upto = [&](uint64_t most) { return random() % most; };
    Case c{.shape = {1 + upto(side), 1 + upto(side), 1 + upto(depth), upto(2) == 1, upto(2) == 1},
           .element = static_cast<Element>(upto(3)),
           .bias = upto(2) == 1,
           .fp32 = upto(2) == 1,
           .tiling = {.blocks = 0}};
    c.accumulate = (c.fp32 || c.element == Element::kFloat) && upto(2) == 1;
    c.fp32 = c.fp32 || c.element == Element::kFloat;
    Check(c, seed);
  }
}

// Every block fits, no core idles that could work, k is split only where that is allowed.
TEST(TileGemm, FitsAndUsesCores) {
  for (const uint32_t cubes : {20u, 24u}) {
    for (const uint64_t m : {1, 16, 100, 1000, 4096, 8192}) {
      for (const uint64_t n : {1, 17, 129, 4096, 151936}) {
        for (const uint64_t k : {1, 300, 4096, 32768}) {
          for (const bool may_split : {false, true}) {
            const GemmTiling t = TileGemm({.m = m, .n = n, .k = k}, Element::kBfloat16, cubes, may_split);
            ASSERT_LE(t.block_m * t.block_n * 4u, 128u * 1024);
            ASSERT_TRUE(t.block_m % 16 == 0 && t.block_n % 16 == 0 && t.block_m <= 256 && t.block_n <= 256);
            ASSERT_LE(t.splits, may_split ? (k + 255) / 256 : 1);
            const uint64_t items = (m + t.block_m - 1) / t.block_m * ((n + t.block_n - 1) / t.block_n) * t.splits;
            ASSERT_EQ(t.blocks, std::min<uint64_t>(items, cubes));
          }
        }
      }
    }
  }
  const GemmTiling square = TileGemm({4096, 4096, 4096}, Element::kBfloat16, 20, false);
  EXPECT_EQ(square.block_m * square.block_n, 32768u);
  EXPECT_GT(TileGemm({.m = 256, .n = 256, .k = 32768}, Element::kBfloat16, 20, true).splits, 1u);
}

}  // namespace
}  // namespace trireme::ascendc
