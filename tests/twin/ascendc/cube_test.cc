// The cube core's functions against their specification, in both builds: layouts element by element, products against
// fp64, what the fixpipe writes.
#include <cmath>

#include "tests/twin/ascendc/on_core.h"

namespace ascendc_test {
namespace {

// A block on a cube core, and tensors in its memories.
class OnCube : public OnCore {
 public:
  OnCube() { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY); }
  template <TPosition position, typename T>
  LocalTensor<T> In(size_t count) {
    TBuf<position> buffer;
    GetTPipePtr()->InitBuffer(buffer, static_cast<uint32_t>((count * sizeof(T) + 511) / 512 * 512));
    return buffer.template Get<T>();
  }
};

template <typename T>
constexpr uint32_t kC0 = 32 / sizeof(T);
constexpr uint32_t Up(uint32_t x, uint32_t to) { return (x + to - 1) / to * to; }

template <typename T>
std::vector<T> Numbered(size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<float>(i % 2039));
  return values;
}

// Two matrices of 21 x 37 with gaps, one after another in L1: the address of each element, zeros after the last column.
template <typename T>
void CopiesMatricesToNz() {
  OnCube core;
  constexpr uint32_t kRows = 21, kColumns = 37, kPitch = 40, kApart = 900, kHeight = 32;
  std::vector<T> values = Random<T>(2 * kApart, 5);
  const uint32_t matrix = Up(kColumns, kC0<T>) * kHeight;
  const LocalTensor<T> tile = core.In<TPosition::A1, T>(2 * matrix);
  InitConstValue(tile.template ReinterpretCast<int16_t>(),
                 InitConstValueParams<int16_t>(1, static_cast<uint16_t>(2 * matrix * sizeof(T) / 32), 0, 0x0101));
  DataCopy(tile, Global(values), Nd2NzParams(2, kRows, kColumns, kApart, kPitch, kHeight, 1, matrix));
  for (uint32_t i = 0; i < 2; ++i) {
    for (uint32_t row = 0; row < kHeight; ++row) {
      for (uint32_t column = 0; column < Up(kColumns, kC0<T>); ++column) {
        const T got = tile.data()[i * matrix + column / kC0<T> * kHeight * kC0<T> + row * kC0<T> + column % kC0<T>];
        T wanted = column < kColumns ? values[i * kApart + row * kPitch + column] : T(0.0f);
        if (row >= kRows) std::memset(&wanted, 1, sizeof wanted);
        ASSERT_EQ(std::memcmp(&got, &wanted, sizeof got), 0) << i << ", " << row << ", " << column;
      }
    }
  }
}
TEST(Cube, CopiesMatricesToNz) {
  CopiesMatricesToNz<half>();
  CopiesMatricesToNz<float>();
  CopiesMatricesToNz<int8_t>();
}

// The strides of fractals, up and down, and each fractal transposed.
TEST(Cube, LoadsFractals) {
  OnCube core;
  constexpr uint32_t kFractal = 256, kCount = 12;
  std::vector<half> values = Numbered<half>(kCount * kFractal);
  const LocalTensor<half> l1 = core.In<TPosition::A1, half>(kCount * kFractal),
                          l0 = core.In<TPosition::A2, half>(kCount * kFractal);
  DataCopy(l1, Global(values), static_cast<uint32_t>(values.size()));
  PipeBarrier<PIPE_ALL>();
  LoadData(l0, l1, LoadData2DParams(1, 4, 2, 0, 1, false, 0));
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t e = 0; e < kFractal; ++e)
      ASSERT_EQ(float{l0.data()[i * 2 * kFractal + e]}, float{values[(1 + 2 * i) * kFractal + e]});
  }
  LoadData(l0, l1, LoadData2DParams(9, 3, 4, 0, 0, true, 1));
  for (uint32_t i = 0; i < 3; ++i) {
    for (uint32_t e = 0; e < kFractal; ++e)
      ASSERT_EQ(float{l0.data()[i * kFractal + e % 16 * 16 + e / 16]}, float{values[(9 - 4 * i) * kFractal + e]});
  }
  LoadData(l0, l1, LoadData2DParams(0, 0, 1, 0, 0, false, 0));  // nothing
}

// C = A B + start of any type, operands in L1 as they are or transposed, against fp64.
template <typename T, typename C>
struct ProductOf {
  uint32_t m, n, k;
  bool transposed_a = false, transposed_b = true;  // B is [n, k]: lanes are rows

  static constexpr bool kSquares = sizeof(T) != 2;
  static constexpr uint32_t kFractal = 16 * kC0<T>, kSide = sizeof(T) == 1 ? 32 : 16;

  uint32_t counted = k;  // of k

  std::vector<T> a, b;
  LocalTensor<T> l0a, l0b;
  LocalTensor<C> c;

  // [rows, columns] into L1 in whole fractals or squares, zeros around it.
  template <TPosition position>
  LocalTensor<T> ToL1(OnCube& core, std::vector<T>& values, uint32_t rows, uint32_t columns, bool zz) {
    const uint32_t height = Up(rows, kSide), width = Up(columns, std::max(kC0<T>, kSide));
    const LocalTensor<T> tile = core.In<position, T>(height * width);
    InitConstValue(
        tile.template ReinterpretCast<half>(),
        InitConstValueParams<half>(1, static_cast<uint16_t>(height * width * sizeof(T) / 32), 0, half(0.0f)));
    for (uint32_t row = 0; row < rows; row += zz ? 16 : rows) {
      const auto count = static_cast<uint16_t>(zz ? std::min(16u, rows - row) : rows);
      DataCopy(tile[row * width], Global(values)[row * columns],
               Nd2NzParams(1, count, static_cast<uint16_t>(columns), 0, static_cast<uint16_t>(columns),
                           static_cast<uint16_t>(zz ? 16 : height), 1, 1));
    }
    PipeBarrier<PIPE_ALL>();
    return tile;
  }

  void Load(OnCube& core) {
    a = Random<T>(m * k, 1), b = Random<T>(k * n, 2);
    const uint32_t down = (m + 15) / 16, across = (Columns() + 15) / 16, deep = Up(k, std::max(kC0<T>, kSide)) / kC0<T>;
    const bool zz = sizeof(T) == 4;
    const LocalTensor<T> left = transposed_a ? ToL1<TPosition::A1>(core, a, k, m, zz)
                                             : ToL1<TPosition::A1>(core, a, m, k, false),
                         right = transposed_b ? ToL1<TPosition::B1>(core, b, n, k, false)
                                              : ToL1<TPosition::B1>(core, b, k, n, zz);
    l0a = core.In<TPosition::A2, T>(Up(m, kSide) / 16 * deep * kFractal);
    l0b = core.In<TPosition::B2, T>(Up(n, kSide) / 16 * deep * kFractal);
    c = core.In<TPosition::CO1, C>(down * across * 256);
    for (uint32_t i = 0; !transposed_a && i < down; ++i)
      LoadData(l0a[i * deep * kFractal], left[i * kFractal], Fractals(deep, Up(m, kSide) / 16));
    for (uint32_t i = 0; transposed_b && i < deep; ++i)
      LoadData(l0b[i * across * kFractal], right[i * Up(n, kSide) / 16 * kFractal], Fractals(across, 1));
    if (transposed_a) LoadSquares(l0a, left, Up(m, kSide) / kSide, Up(k, kSide) / kSide, deep, true);
    if (!transposed_b) LoadSquares(l0b, right, Up(n, kSide) / kSide, Up(k, kSide) / kSide, Up(n, kSide) / 16, false);
    PipeBarrier<PIPE_ALL>();
  }
  uint32_t Columns() const { return transposed_b ? n : Up(n, kSide); }  // as they are in L0B
  static LoadData2DParams Fractals(uint32_t count, uint32_t stride) {
    return {0, static_cast<uint8_t>(count), static_cast<uint16_t>(stride), 0, 0, false, 0};
  }
  // One square at a time: where it is in L1, and where its fractals belong.
  void LoadSquares(const LocalTensor<T>& to, const LocalTensor<T>& from, uint32_t lanes, uint32_t depth,
                   uint32_t stride, bool zz) {
    constexpr uint32_t kLanes = kSide / 16, kDeep = kSide / kC0<T>;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      for (uint32_t k1 = 0; k1 < depth; ++k1) {
        const uint32_t square = sizeof(T) == 4 ? k1 * lanes + lane : lane * depth + k1;
        const uint32_t at = zz ? lane * kLanes * stride + k1 * kDeep : k1 * kDeep * stride + lane * kLanes;
        const uint32_t apart = (sizeof(T) == 4) == zz ? 1 : stride;  // of a square's fractals
        LoadDataWithTranspose(
            to[at * kFractal], from,
            LoadData2dTransposeParams(static_cast<uint16_t>(square), 1, 0, 0, static_cast<uint16_t>(apart - 1)));
      }
    }
  }

  void Multiply(C start = 0) {
    MmadParams p(static_cast<uint16_t>(m), static_cast<uint16_t>(Columns()), static_cast<uint16_t>(counted), 0, false,
                 start == C(0));
    p.kDirectionAlign = sizeof(T) == 4;
    Mmad(c, l0a, l0b, p);
    PipeBarrier<PIPE_ALL>();
  }
  double Exactly(uint32_t row, uint32_t column, double* magnitude) const {
    double sum = 0;
    *magnitude = 0;
    for (uint32_t i = 0; i < counted; ++i) {
      const double product = static_cast<double>(static_cast<float>(a[transposed_a ? i * m + row : row * k + i])) *
                             static_cast<double>(static_cast<float>(b[transposed_b ? column * k + i : i * n + column]));
      sum += product, *magnitude += std::abs(product);
    }
    return sum;
  }
  void Expect(double times) const {
    for (uint32_t row = 0; row < m; ++row) {
      for (uint32_t column = 0; column < n; ++column) {
        const C got = c.data()[column / 16 * Up(m, 16) * 16 + row * 16 + column % 16];
        double magnitude = 0;
        const double exact = times * Exactly(row, column, &magnitude);
        ASSERT_NEAR(static_cast<double>(got), exact, std::is_integral_v<C> ? 0 : times * k * 0x1p-24 * magnitude)
            << row << ", " << column;
      }
    }
  }
};

template <typename T, typename C>
void Multiplies() {
  for (const bool transposed_a : {false, true}) {
    for (const bool transposed_b : {false, true}) {
      for (const auto [m, n, k] : {std::array{32u, 48u, 64u}, std::array{19u, 35u, 70u}, std::array{2u, 1u, 7u}}) {
        OnCube core;
        ProductOf<T, C> product{m, n, k, transposed_a, transposed_b};
        SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + " " +
                     std::to_string(transposed_a) + std::to_string(transposed_b));
        product.Load(core);
        product.Multiply();
        product.Expect(1);
        product.Multiply(C(1));  // adds to it
        product.Expect(2);
      }
    }
  }
}
// What is in the last fractals beyond k does not count.
template <typename T, typename C>
void StopsAtK() {
  OnCube core;
  ProductOf<T, C> product{32, 48, 64};
  product.Load(core);
  for (const uint32_t counted : {57u, 50u}) {
    product.counted = counted;
    product.Multiply();
    product.Expect(1);
  }
}
TEST(Cube, StopsAtK) {
  StopsAtK<half, float>();
  StopsAtK<bfloat16_t, float>();
  StopsAtK<float, float>();
  StopsAtK<int8_t, int32_t>();
}

TEST(Cube, MultipliesHalves) { Multiplies<half, float>(); }
TEST(Cube, MultipliesBfloat16) { Multiplies<bfloat16_t, float>(); }
TEST(Cube, MultipliesFloats) { Multiplies<float, float>(); }
TEST(Cube, MultipliesIntegers) { Multiplies<int8_t, int32_t>(); }

// Why products differ from fp64: fp32 sums, one product after another. The same loop on the host gives the same bits,
// or those of products that are rounded before they are added, where the processor has no fused instruction.
TEST(Cube, AddsInOrderOfK) {
  OnCube core;
  ProductOf<half, float> product{16, 16, 128};
  product.Load(core);
  for (half& x : product.a) x = half(float{x} * 1.001f);
  product.Multiply();
  int fused = 0, rounded = 0;
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t column = 0; column < 16; ++column) {
      float with = 0, without = 0;
      for (uint32_t k = 0; k < 128; ++k) {
        const float x = product.l0a.data()[k / 16 * 256 + row * 16 + k % 16],
                    y = product.l0b.data()[k / 16 * 256 + column * 16 + k % 16];
        with = std::fma(x, y, with);
        const volatile float once = x * y;
        without = without + once;
      }
      const float got = product.c.data()[row * 16 + column];
      fused += got == with, rounded += got == without;
    }
  }
  EXPECT_EQ(std::max(fused, rounded), 256);
}

TEST(Cube, BeginsWithTheBias) {
  OnCube core;
  ProductOf<half, float> product{32, 48, 32};
  product.Load(core);
  std::vector<float> values = Random<float>(48, 9);
  const LocalTensor<float> l1 = core.In<TPosition::C1, float>(48), table = core.In<TPosition::C2, float>(48);
  DataCopy(l1, Global(values), 48);
  PipeBarrier<PIPE_ALL>();
  DataCopy(table, l1, 48);
  PipeBarrier<PIPE_ALL>();
  Mmad(product.c, product.l0a, product.l0b, table, MmadParams(32, 48, 32, 0, true, false));
  PipeBarrier<PIPE_ALL>();
  for (uint32_t row = 0; row < 32; ++row) {
    for (uint32_t column = 0; column < 48; ++column) {
      double magnitude = 0;
      const double exact = product.Exactly(row, column, &magnitude) + static_cast<double>(values[column]);
      ASSERT_NEAR(static_cast<double>(product.c.data()[column / 16 * 512 + row * 16 + column % 16]), exact,
                  34 * 0x1p-24 * (magnitude + 5));
    }
  }
}

// C of 19 x 35, out of fractals, in rows of any distance: rounded, cut at 0, scaled to integers, added.
template <typename T>
void WritesRows(QuantMode_t mode, bool relu, bool adds) {
  OnCube core;
  ProductOf<half, float> product{19, 35, 16};
  product.Load(core);
  product.Multiply();
  std::vector<T> out(19 * 40, T(2.0f));
  FixpipeParamsV220 p(35, 19, 32, 40, relu);
  p.quantPre = mode;
  const float scale = 0.5f;
  std::memcpy(&p.deqScalar, &scale, sizeof scale);
  if (adds) SetAtomicAdd<T>();
  Fixpipe(Global(out), product.c, p);
  SetAtomicNone();
  for (uint32_t row = 0; row < 19; ++row) {
    for (uint32_t column = 0; column < 40; ++column) {
      float x = column < 35 ? product.c.data()[column / 16 * 512 + row * 16 + column % 16] : 0.0f;
      if (sizeof(T) == 1) x *= scale;
      if (relu) x = std::max(x, 0.0f);
      if (sizeof(T) == 1) x = std::min(std::max(std::nearbyint(x), -128.0f), 127.0f);
      if (adds) x = static_cast<float>(static_cast<T>(x)) + 2;
      const float wanted = column < 35 ? static_cast<float>(static_cast<T>(x)) : 2.0f;
      ASSERT_EQ(static_cast<float>(out[row * 40 + column]), wanted) << row << ", " << column;
    }
  }
}
TEST(Cube, WritesRows) {
  for (const bool relu : {false, true}) {
    WritesRows<float>(NoQuant, relu, false);
    WritesRows<half>(F322F16, relu, false);
    WritesRows<bfloat16_t>(F322BF16, relu, false);
    WritesRows<int8_t>(QF322B8_PRE, relu, false);
  }
  WritesRows<float>(NoQuant, false, true);
}

// Two matrices side by side in L0C become two in global memory; NZ keeps columns of 16, or of 8 where channels are
// split.
TEST(Cube, WritesMatricesAndNz) {
  OnCube core;
  ProductOf<half, float> product{32, 32, 16};
  product.Load(core);
  product.Multiply();
  const float* c = product.c.data();
  std::vector<float> two(2 * 600, 0.0f), nz(1024, 0.0f), split(1024, 0.0f);
  FixpipeParamsV220 p(16, 32, 32, 16, false);
  p.ndNum = 2, p.srcNdStride = 2, p.dstNdStride = 600;
  Fixpipe(Global(two), product.c, p);
  p = FixpipeParamsV220(32, 32, 32, 64, false);
  Fixpipe<float, float, CFG_NZ>(Global(nz), product.c, p);
  p.isChannelSplit = true, p.dstStride = 32;
  Fixpipe<float, float, CFG_NZ>(Global(split), product.c, p);
  const LocalTensor<half> l1 = core.In<TPosition::A1, half>(1024);
  p = FixpipeParamsV220(32, 32, 32, 32, false);
  p.quantPre = F322F16;
  Fixpipe(l1, product.c, p);
  for (uint32_t row = 0; row < 32; ++row) {
    for (uint32_t column = 0; column < 32; ++column) {
      const float wanted = c[column / 16 * 512 + row * 16 + column % 16];
      ASSERT_EQ(two[column / 16 * 600 + row * 16 + column % 16], wanted);
      ASSERT_EQ(nz[column / 16 * 512 + row * 16 + column % 16], wanted);
      ASSERT_EQ(split[column / 8 * 256 + row * 8 + column % 8], wanted);
      ASSERT_EQ(float{l1.data()[column / 16 * 512 + row * 16 + column % 16]}, float{half(wanted)});
    }
  }
}

// Integers are exact, or scaled.
TEST(Cube, WritesIntegers) {
  OnCube core;
  ProductOf<int8_t, int32_t> product{16, 16, 32};
  product.Load(core);
  product.Multiply();
  std::vector<int32_t> exact(256);
  std::vector<half> scaled(256);
  FixpipeParamsV220 p(16, 16, 16, 16, false);
  Fixpipe(Global(exact), product.c, p);
  p.quantPre = DEQF16;
  const float scale = 0.125f;
  std::memcpy(&p.deqScalar, &scale, sizeof scale);
  Fixpipe(Global(scaled), product.c, p);
  for (uint32_t i = 0; i < 256; ++i) {
    ASSERT_EQ(exact[i], product.c.data()[i]);
    ASSERT_EQ(float{scaled[i]}, float{half(static_cast<float>(exact[i]) * scale)});
  }
}

// What the model of a chip multiplies with times: bytes and fractals as the instructions say.
TEST(Cube, CountsItsWork) {
  twin::ascendc::TakeCubeWork();
  {
    OnCube core;
    ProductOf<half, float> product{32, 48, 64};
    product.Load(core);
    product.Multiply();
    std::vector<float> out(32 * 48);
    Fixpipe(Global(out), product.c, FixpipeParamsV220(48, 32, 32, 48, false));
  }
  const twin::ascendc::CubeWork work = twin::ascendc::TakeCubeWork();
  EXPECT_EQ(work.mte2_bytes, (32 + 48) * 64 * 2u);
  EXPECT_EQ(work.mte1_bytes, (32 + 48) * 64 * 2u);
  EXPECT_EQ(work.fractals, 2 * 3 * 4u);
  EXPECT_EQ(work.fixpipe_bytes, 32 * 48 * 4u);
}

}  // namespace
}  // namespace ascendc_test
