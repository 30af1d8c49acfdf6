// C = A B (+ bias), or C += A B in fp32, on cube cores. A block of C stays in L0C while k runs: tiles of A and B go to
// L1, 512 bytes of k deep, and in steps of 128 bytes to L0A and L0B, both with two buffers, so that copies, loads and
// products overlap; unit flags let the fixpipe begin with the first finished fractals. Tiles are filled up with zeros
// to whole fractals: no product depends on what is beyond m, n or k. Knows no operator.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

using AscendC::Fixpipe;
using AscendC::FixpipeParamsV220;
using AscendC::InitConstValue;
using AscendC::InitConstValueParams;
using AscendC::LoadData;
using AscendC::LoadData2DParams;
using AscendC::LoadData2dTransposeParams;
using AscendC::LoadDataWithTranspose;
using AscendC::Mmad;
using AscendC::MmadParams;
using AscendC::Nd2NzParams;
using AscendC::QuantMode_t;

// Bits of a kernel's argument.
constexpr uint32_t kTransposedA = 1, kTransposedB = 2, kHasBias = 4, kWideOutput = 8, kAccumulates = 16;
constexpr uint32_t kSide = 16, kBand = 3, kLargestPitch = 65535, kFewFractals = 10;

__aicore__ inline uint32_t RoundUp(uint32_t x, uint32_t to) { return (x + to - 1) / to * to; }
__aicore__ inline uint32_t CeilDiv(uint32_t x, uint32_t by) { return (x + by - 1) / by; }

// Sizes, as the host passes them. A: [m, k], or [k, m] transposed; B: [k, n], or [n, k] transposed; C: [m, n].
struct GemmSizes {
  uint32_t m, n, k, block_m, block_n, splits;
};

// A block of C and a range of k in it, both within the matrices.
struct Piece {
  uint32_t row, rows, column, columns, k, depth;
  bool first, last;  // along k, of this core's part
  bool adds_bias;
};

template <typename T>
class Gemm {
 public:
  __aicore__ inline void Run(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, uint32_t flags, GemmSizes sizes) {
    sizes_ = sizes, flags_ = flags;
    const uint64_t m = sizes.m, n = sizes.n, k = sizes.k;
    a_ = GlobalOf<T>(a, m * k);
    b_ = GlobalOf<T>(b, k * n);
    bias_ = GlobalOf<float>(bias, n);
    wide_ = GlobalOf<float>(c, m * n);
    narrow_ = GlobalOf<T>(c, m * n);
    Allocate();
    if (Has(kAccumulates)) AscendC::SetAtomicAdd<float>();
    const uint32_t items = CeilDiv(sizes.m, sizes.block_m) * CeilDiv(sizes.n, sizes.block_n) * sizes.splits;
    Step now{static_cast<uint32_t>(AscendC::GetBlockIdx()), 0};
    if (now.item < items) Load(PieceOf(now));
    while (now.item < items) {
      const Step next = After(now);
      if (next.item < items) Load(PieceOf(next));  // on its way while this one is multiplied
      Compute(PieceOf(now));
      now = next;
    }
    AscendC::SetAtomicNone();
  }

 private:
  static constexpr uint32_t kC0 = 32 / sizeof(T), kFractal = kSide * kC0;      // elements
  static constexpr uint32_t kDeep = 512 / sizeof(T), kStep = 128 / sizeof(T);  // of k in L1, in L0
  static constexpr bool kBySquares = sizeof(T) == 4;                           // how transposed operands are loaded

  struct Step {
    uint32_t item, tile;  // of k, from the item's first
  };

  __aicore__ inline bool Has(uint32_t flag) const { return (flags_ & flag) != 0; }

  __aicore__ inline void Allocate() {
    pipe_.InitBuffer(a1_, 2, sizes_.block_m * kDeep * sizeof(T));
    pipe_.InitBuffer(b1_, 2, sizes_.block_n * kDeep * sizeof(T));
    pipe_.InitBuffer(a2_, 2, sizes_.block_m * kStep * sizeof(T));
    pipe_.InitBuffer(b2_, 2, sizes_.block_n * kStep * sizeof(T));
    pipe_.InitBuffer(c_, sizes_.block_m * sizes_.block_n * sizeof(float));
    if (!Has(kHasBias)) return;
    pipe_.InitBuffer(bias1_, 1, sizes_.block_n * sizeof(float));
    pipe_.InitBuffer(bias2_, 1, sizes_.block_n * sizeof(float));
  }

  // Item's tiles of k: [begin, end).
  __aicore__ inline Share Tiles(uint32_t item) const {
    const uint64_t tiles = CeilDiv(sizes_.k, kDeep), split = item % sizes_.splits;
    return {static_cast<uint32_t>(tiles * split / sizes_.splits),
            static_cast<uint32_t>(tiles * (split + 1) / sizes_.splits)};
  }
  __aicore__ inline Step After(const Step& step) const {
    const Share tiles = Tiles(step.item);
    if (tiles.begin + step.tile + 1 < tiles.end) return {step.item, step.tile + 1};
    return {step.item + static_cast<uint32_t>(AscendC::GetBlockNum()), 0};
  }

  // Blocks in bands of three rows, down and up the columns in turn: cores that work side by side share their rows of A
  // and columns of B in L2.
  __aicore__ inline Piece PieceOf(const Step& step) const {
    const uint32_t down = CeilDiv(sizes_.m, sizes_.block_m), across = CeilDiv(sizes_.n, sizes_.block_n),
                   index = step.item / sizes_.splits, band = index / (kBand * across),
                   within = index % (kBand * across), height = Least(kBand, down - band * kBand);
    uint32_t column = within / height;
    if (band % 2 == 1) column = across - 1 - column;
    const uint32_t first_row = (band * kBand + within % height) * sizes_.block_m,
                   first_column = column * sizes_.block_n;
    const Share tiles = Tiles(step.item);
    const uint32_t k = (tiles.begin + step.tile) * kDeep;
    return {first_row,
            Least(sizes_.block_m, sizes_.m - first_row),
            first_column,
            Least(sizes_.block_n, sizes_.n - first_column),
            k,
            Least(kDeep, sizes_.k - k),
            step.tile == 0,
            tiles.begin + step.tile + 1 == tiles.end,
            Has(kHasBias) && step.item % sizes_.splits == 0};
  }

  __aicore__ inline void Load(const Piece& p) {
    const LocalTensor<T> left = a1_.template AllocTensor<T>();
    if (Has(kTransposedA)) {
      LoadTile(left, a_[uint64_t{p.k} * sizes_.m + p.row], sizes_.m, p.depth, p.rows, kBySquares);
    } else {
      LoadTile(left, a_[uint64_t{p.row} * sizes_.k + p.k], sizes_.k, p.rows, p.depth, false);
    }
    a1_.EnQue(left);
    const LocalTensor<T> right = b1_.template AllocTensor<T>();
    if (Has(kTransposedB)) {
      LoadTile(right, b_[uint64_t{p.column} * sizes_.k + p.k], sizes_.k, p.columns, p.depth, false);
    } else {
      LoadTile(right, b_[uint64_t{p.k} * sizes_.n + p.column], sizes_.n, p.depth, p.columns, kBySquares);
    }
    b1_.EnQue(right);
  }

  // Rows of global memory into L1: in columns of 32 bytes (NZ), or for squares in rows of fractals (ZZ). The rest of
  // the fractals becomes 0, also of the second half of a square.
  __aicore__ inline void LoadTile(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t pitch, uint32_t rows,
                                  uint32_t columns, bool by_rows) {
    const uint32_t all_rows = RoundUp(rows, kSide), all_columns = RoundUp(columns, kSide),
                   written = RoundUp(columns, kC0), height = by_rows ? kSide : all_rows, rest = rows % kSide;
    for (uint32_t row = 0; row < rows; row += height)
      CopyRows(to[row * all_columns], from[uint64_t{row} * pitch], pitch, Least(height, rows - row), columns, height);
    if (rest != 0) {
      const uint32_t in_column = rows - (all_rows - height);
      Clear(to[(all_rows - height) * all_columns + in_column * kC0], all_columns / kC0, kSide - rest, in_column);
    }
    if (written == all_columns) return;
    Clear(to[written * height], all_rows / height, height, (all_columns / kC0 - 1) * height);
  }
  __aicore__ inline void CopyRows(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t pitch, uint32_t rows,
                                  uint32_t columns, uint32_t height) {
    if (pitch <= kLargestPitch) {
      DataCopy(to, from, Nd2Nz(rows, columns, pitch, height));
      return;
    }
    for (uint32_t row = 0; row < rows; ++row)  // the instruction cannot express the distance
      DataCopy(to[row * kC0], from[uint64_t{row} * pitch], Nd2Nz(1, columns, columns, height));
  }
  __aicore__ inline Nd2NzParams Nd2Nz(uint32_t rows, uint32_t columns, uint32_t pitch, uint32_t height) const {
    return Nd2NzParams(1, static_cast<uint16_t>(rows), static_cast<uint16_t>(columns), 0, static_cast<uint16_t>(pitch),
                       static_cast<uint16_t>(height), 1, 1);
  }
  // Blocks of 32 bytes: `count` pieces of `blocks`, `gap` apart.
  __aicore__ inline void Clear(const LocalTensor<T>& to, uint32_t count, uint32_t blocks, uint32_t gap) {
    InitConstValue(to.template ReinterpretCast<float>(),
                   InitConstValueParams<float>(static_cast<uint16_t>(count), static_cast<uint16_t>(blocks),
                                               static_cast<uint16_t>(gap), 0.0f));
  }

  __aicore__ inline void Compute(const Piece& p) {
    LocalTensor<T> left = a1_.template DeQue<T>(), right = b1_.template DeQue<T>();
    const uint32_t m = RoundUp(p.rows, kSide), n = RoundUp(p.columns, kSide), depth = RoundUp(p.depth, kSide);
    const LocalTensor<float> c = c_.template Get<float>();
    LocalTensor<float> bias;
    if (p.first && p.adds_bias) bias = LoadBias(p, n);
    for (uint32_t k = 0; k < depth; k += kStep) {
      const uint32_t step = Least(kStep, depth - k);
      LocalTensor<T> l0a = a2_.template AllocTensor<T>(), l0b = b2_.template AllocTensor<T>();
      LoadA(l0a, left, m, k, step, depth);
      LoadB(l0b, right, n, k, step, depth);
      a2_.EnQue(l0a);
      b2_.EnQue(l0b);
      l0a = a2_.template DeQue<T>();
      l0b = b2_.template DeQue<T>();
      const bool begins = p.first && k == 0;
      MmadParams product;
      product.m = static_cast<uint16_t>(m), product.n = static_cast<uint16_t>(n),
      product.k = static_cast<uint16_t>(step);
      product.unitFlag = p.last && k + kStep >= depth ? 3 : 2;
      product.cmatrixInitVal = begins && !p.adds_bias;
      product.cmatrixSource = begins && p.adds_bias;
      if (!begins && m * n < kFewFractals * kSide * kSide) PipeBarrier<PIPE_M>();
      if (product.cmatrixSource) {
        Mmad(c, l0a, l0b, bias, product);
      } else {
        Mmad(c, l0a, l0b, product);
      }
      a2_.FreeTensor(l0a);
      b2_.FreeTensor(l0b);
    }
    if (p.first && p.adds_bias) bias2_.FreeTensor(bias);
    a1_.FreeTensor(left);
    b1_.FreeTensor(right);
    if (p.last) Store(p, c, m);
  }

  __aicore__ inline LocalTensor<float> LoadBias(const Piece& p, uint32_t n) {
    LocalTensor<float> l1 = bias1_.template AllocTensor<float>();
    const uint32_t written = RoundUp(p.columns, 8);
    DataCopy(l1, bias_[p.column], Nd2NzParams(1, 1, static_cast<uint16_t>(p.columns), 0, 1, 1, 1, 1));
    if (written < n)
      InitConstValue(l1[written], InitConstValueParams<float>(1, static_cast<uint16_t>((n - written) / 8), 0, 0.0f));
    bias1_.EnQue(l1);
    l1 = bias1_.template DeQue<float>();
    LocalTensor<float> table = bias2_.template AllocTensor<float>();
    DataCopy(table, l1, n);
    bias1_.FreeTensor(l1);
    bias2_.EnQue(table);
    return bias2_.template DeQue<float>();
  }

  // `step` of k from `k` on, for all rows of A's tile, in rows of fractals.
  __aicore__ inline void LoadA(const LocalTensor<T>& to, const LocalTensor<T>& tile, uint32_t m, uint32_t k,
                               uint32_t step, uint32_t depth) {
    const uint32_t down = m / kSide, along = step / kC0;
    for (uint32_t i = 0; i < down; ++i) {
      const LocalTensor<T> row = to[i * along * kFractal];
      if (!Has(kTransposedA)) {
        LoadData(row, tile[i * kFractal + k * m], Fractals(along, down, false));
      } else if constexpr (kBySquares) {
        LoadDataWithTranspose(row, tile, Squares(k / kSide * down + i, step / kSide, down, 1, 0));
      } else {
        LoadData(row, tile[i * depth * kSide + k * kSide], Fractals(along, 1, true));
      }
    }
  }
  // The same of B's tile, for each of k all columns.
  __aicore__ inline void LoadB(const LocalTensor<T>& to, const LocalTensor<T>& tile, uint32_t n, uint32_t k,
                               uint32_t step, uint32_t depth) {
    const uint32_t across = n / kSide;
    if (!Has(kTransposedB) && kBySquares) {
      for (uint32_t i = 0; i < step / kSide; ++i)
        LoadDataWithTranspose(to[i * 2 * across * kFractal], tile,
                              Squares((k / kSide + i) * across, across, 1, 0, across - 1));
      return;
    }
    for (uint32_t i = 0; i < step / kC0; ++i) {
      const LocalTensor<T> row = to[i * across * kFractal];
      if (Has(kTransposedB)) {
        LoadData(row, tile[(k + i * kC0) * n], Fractals(across, 1, false));
      } else {
        LoadData(row, tile[(k + i * kSide) * kSide], Fractals(across, depth / kSide, true));
      }
    }
  }
  __aicore__ inline LoadData2DParams Fractals(uint32_t count, uint32_t stride, bool transpose) const {
    return LoadData2DParams(0, static_cast<uint8_t>(count), static_cast<uint16_t>(stride), 0, 0, transpose, 0);
  }
  __aicore__ inline LoadData2dTransposeParams Squares(uint32_t start, uint32_t count, uint32_t stride, uint32_t gap,
                                                      uint32_t fractal_gap) const {
    return LoadData2dTransposeParams(static_cast<uint16_t>(start), static_cast<uint8_t>(count),
                                     static_cast<uint16_t>(stride), static_cast<uint16_t>(gap),
                                     static_cast<uint16_t>(fractal_gap));
  }

  __aicore__ inline void Store(const Piece& p, const LocalTensor<float>& c, uint32_t m) {
    FixpipeParamsV220 out;
    out.nSize = static_cast<uint16_t>(p.columns), out.mSize = static_cast<uint16_t>(p.rows);
    out.srcStride = static_cast<uint16_t>(m), out.dstStride = sizes_.n;
    out.unitFlag = 3;
    const uint64_t at = uint64_t{p.row} * sizes_.n + p.column;
    if (Has(kWideOutput)) {
      out.quantPre = QuantMode_t::NoQuant;
      Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(wide_[at], c, out);
    } else if constexpr (!IsFloat<T>::value) {
      out.quantPre = AscendC::IsSameType<T, half>::value ? QuantMode_t::F322F16 : QuantMode_t::F322BF16;
      Fixpipe<T, float, AscendC::CFG_ROW_MAJOR>(narrow_[at], c, out);
    }
  }

  GemmSizes sizes_;
  uint32_t flags_;
  GlobalTensor<T> a_, b_, narrow_;
  GlobalTensor<float> bias_, wide_;
  TPipe pipe_;
  TQue<TPosition::A1, 2> a1_;
  TQue<TPosition::B1, 2> b1_;
  TQue<TPosition::A2, 2> a2_;
  TQue<TPosition::B2, 2> b2_;
  TQue<TPosition::C1, 1> bias1_;
  TQue<TPosition::C2, 1> bias2_;
  TBuf<TPosition::CO1> c_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void gemm(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, uint32_t type, uint32_t flags,
                                           uint32_t m, uint32_t n, uint32_t k, uint32_t block_m, uint32_t block_n,
                                           uint32_t splits) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  const trireme_kernels::GemmSizes sizes{m, n, k, block_m, block_n, splits};
  trireme_kernels::ByType<trireme_kernels::Gemm>(type, a, b, bias, c, flags, sizes);
}
