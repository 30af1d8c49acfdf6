// Weights of 4 bits, decoded in tiles: the code's value times its block's scale. A row's blocks are those of the file's
// matrix, so that a row may begin anywhere in a block; a scale is looked up for each weight, as the code's value is.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

constexpr uint32_t kCodes = 16, kScaleCodes = 256;
constexpr uint32_t kNestedShift = 8;     // so many bits of a block's number choose among the scales that share a scale
constexpr uint32_t kFewestInBlock = 32;  // weights
constexpr uint16_t kLowHalves = 0x0F0F;

struct PackedNumbers {
  uint32_t nested;  // how many scales of scales there are; 0: scales are fp32
  uint32_t rows, columns, stride;
  uint32_t start, row_step;  // first weight of a row, in the file's matrix
  uint32_t row_blocks;       // scales that each row has room for
  uint32_t block_shift, tile;
};

// Byte offsets of fp32 in a table, for the items `first`, `first` + 1, … of which 2^shift share an entry.
__aicore__ inline void OffsetsOfItems(const LocalTensor<int32_t>& offsets, uint32_t first, uint32_t shift,
                                      uint32_t count) {
  PipeBarrier<PIPE_V>();
  CreateVecIndex(offsets, static_cast<int32_t>(first), count);
  PipeBarrier<PIPE_V>();
  ShiftRight(offsets, offsets, static_cast<int32_t>(shift), static_cast<int32_t>(count));
  PipeBarrier<PIPE_V>();
  ShiftLeft(offsets, offsets, 2, static_cast<int32_t>(count));
}

__aicore__ inline void Look(const LocalTensor<float>& to, const LocalTensor<float>& table,
                            const LocalTensor<int32_t>& offsets, uint32_t count) {
  PipeBarrier<PIPE_V>();
  Gather(to, table, offsets.ReinterpretCast<uint32_t>(), 0, count);
}

template <typename T>
class Dequantise {
 public:
  __aicore__ inline void Run(GM_ADDR codes, GM_ADDR scales, GM_ADDR nested, GM_ADDR tables, GM_ADDR to,
                             PackedNumbers numbers) {
    n_ = numbers;
    row_bytes_ = (n_.columns + 1) / 2;
    codes_ = GlobalOf<uint8_t>(codes, static_cast<uint64_t>(n_.rows) * row_bytes_);
    scales_ = GlobalOf<uint8_t>(scales, static_cast<uint64_t>(n_.rows) * n_.row_blocks * ScaleBytes());
    nested_ = GlobalOf<uint8_t>(nested, (static_cast<uint64_t>(n_.nested) + 1) * sizeof(float));
    to_ = GlobalOf<T>(to, static_cast<uint64_t>(n_.rows - 1) * n_.stride + n_.columns);
    InitBuffers();
    LoadTables(tables);
    const uint32_t pieces = (n_.columns + n_.tile - 1) / n_.tile;
    const Share share = MyShare(n_.rows * pieces);
    for (uint32_t i = share.begin; i < share.end; ++i) {
      const uint32_t row = i / pieces, column = i % pieces * n_.tile;
      Tile(row, column, Least(n_.tile, n_.columns - column));
    }
  }

 private:
  __aicore__ inline uint32_t ScaleBytes() const { return n_.nested != 0 ? 1 : sizeof(float); }

  __aicore__ inline void InitBuffers() {
    const uint32_t tile = n_.tile, blocks = tile / kFewestInBlock + 2;
    pipe.InitBuffer(in, 2, tile / 2);
    pipe.InitBuffer(scales_in, 2, blocks * sizeof(float));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    pipe.InitBuffer(table_, (kCodes + kScaleCodes) * sizeof(float));
    pipe.InitBuffer(low_halves_, tile / 2);
    pipe.InitBuffer(swapped_, tile / 2);
    pipe.InitBuffer(halves_, tile * sizeof(half));
    pipe.InitBuffer(offsets_, tile * sizeof(int32_t));
    pipe.InitBuffer(fractions_, tile * sizeof(float));
    pipe.InitBuffer(weight_scales_, tile * sizeof(float));
    pipe.InitBuffer(block_scales_, blocks * sizeof(float));
    pipe.InitBuffer(of_scales_, blocks * sizeof(float));
  }

  __aicore__ inline void LoadTables(GM_ADDR tables) {
    const LocalTensor<float> table = table_.template Get<float>();
    CopyIn(table, GlobalOf<float>(tables, kCodes + kScaleCodes), kCodes + kScaleCodes);
    Wait<HardEvent::MTE2_V>();
    AscendC::Duplicate(low_halves_.template Get<uint16_t>(), kLowHalves, static_cast<int32_t>(n_.tile / 4));
    if (n_.nested == 0) return;
    LocalTensor<uint8_t> loaded =
        Load(scales_in, nested_[static_cast<uint64_t>(n_.nested) * sizeof(float)], sizeof(float));
    const LocalTensor<float> kept = of_scales_.template Get<float>();
    Muls(kept, loaded.ReinterpretCast<float>(), 1.0f, 1);
    scales_in.FreeTensor(loaded);
    offset_ = Read(kept, 0);
  }

  __aicore__ inline void Tile(uint32_t row, uint32_t column, uint32_t count) {
    const uint32_t row_start = n_.start + row * n_.row_step, start = row_start + column;
    const uint32_t first = start >> n_.block_shift, blocks = ((start + count - 1) >> n_.block_shift) - first + 1;
    const uint32_t place = row * n_.row_blocks + first - (row_start >> n_.block_shift);
    const LocalTensor<int32_t> offsets = offsets_.template Get<int32_t>();
    const LocalTensor<float> scales = weight_scales_.template Get<float>();
    if (n_.nested != 0) {
      LoadNestedScales(place, first, blocks);
    } else {
      LoadScales(place, blocks);
    }
    OffsetsOfItems(offsets, start - (first << n_.block_shift), n_.block_shift, count);
    Look(scales, block_scales_.template Get<float>(), offsets, count);

    OffsetsOfCodes(static_cast<uint64_t>(row) * row_bytes_ + column / 2, offsets, count);
    const LocalTensor<float> fractions = fractions_.template Get<float>();
    Look(fractions, table_.template Get<float>(), offsets, count);
    LocalTensor<T> result = out.template AllocTensor<T>();
    const LocalTensor<float> values = ResultOf(result, fractions);
    PipeBarrier<PIPE_V>();
    Mul(values, fractions, scales, static_cast<int32_t>(count));
    Narrow(result, values, count);
    Store(out, result, to_[static_cast<uint64_t>(row) * n_.stride + column], count);
  }

  // Two codes of a byte, the upper half first; a cast takes the lower half first, as signed numbers.
  __aicore__ inline void OffsetsOfCodes(uint64_t place, const LocalTensor<int32_t>& offsets, uint32_t count) {
    const uint32_t bytes = (count + 1) / 2;
    const int32_t pairs = static_cast<int32_t>((bytes + 1) / 2);
    LocalTensor<uint8_t> loaded = Load(in, codes_[place], bytes);
    const LocalTensor<uint16_t> codes = loaded.ReinterpretCast<uint16_t>(), swapped = swapped_.template Get<uint16_t>(),
                                low_halves = low_halves_.template Get<uint16_t>();
    PipeBarrier<PIPE_V>();
    And(swapped, codes, low_halves, pairs);
    PipeBarrier<PIPE_V>();
    ShiftLeft(swapped, swapped, static_cast<uint16_t>(4), pairs);
    ShiftRight(codes, codes, static_cast<uint16_t>(4), pairs);
    PipeBarrier<PIPE_V>();
    And(codes, codes, low_halves, pairs);
    PipeBarrier<PIPE_V>();
    Or(swapped, swapped, codes, pairs);
    in.FreeTensor(loaded);
    const LocalTensor<half> numbers = halves_.template Get<half>();
    PipeBarrier<PIPE_V>();
    Cast(numbers, swapped_.template Get<AscendC::int4b_t>(), RoundMode::CAST_NONE, 2 * bytes);
    PipeBarrier<PIPE_V>();
    Adds(numbers, numbers, static_cast<half>(8.0f), static_cast<int32_t>(count));
    OffsetsOfNumbers(offsets, numbers, count);
  }

  // numbers: small enough that half holds four times as much exactly.
  __aicore__ inline void OffsetsOfNumbers(const LocalTensor<int32_t>& offsets, const LocalTensor<half>& numbers,
                                          uint32_t count) {
    PipeBarrier<PIPE_V>();
    Muls(numbers, numbers, static_cast<half>(4.0f), static_cast<int32_t>(count));
    PipeBarrier<PIPE_V>();
    Cast(offsets, numbers, RoundMode::CAST_RINT, count);
  }

  __aicore__ inline void LoadScales(uint32_t place, uint32_t blocks) {
    LocalTensor<uint8_t> loaded = Load(scales_in, scales_[static_cast<uint64_t>(place) * sizeof(float)],
                                       blocks * static_cast<uint32_t>(sizeof(float)));
    PipeBarrier<PIPE_V>();
    Muls(block_scales_.template Get<float>(), loaded.ReinterpretCast<float>(), 1.0f, static_cast<int32_t>(blocks));
    scales_in.FreeTensor(loaded);
  }

  // offset + value of the code · scale of its 256 scales
  __aicore__ inline void LoadNestedScales(uint32_t place, uint32_t first, uint32_t blocks) {
    const LocalTensor<int32_t> offsets = offsets_.template Get<int32_t>();
    const LocalTensor<float> scales = block_scales_.template Get<float>(), of_scales = of_scales_.template Get<float>();
    LocalTensor<uint8_t> codes = Load(scales_in, scales_[place], blocks);
    const LocalTensor<half> numbers = halves_.template Get<half>();
    PipeBarrier<PIPE_V>();
    Cast(numbers, codes, RoundMode::CAST_NONE, blocks);
    scales_in.FreeTensor(codes);
    OffsetsOfNumbers(offsets, numbers, blocks);
    Look(scales, table_.template Get<float>()[kCodes], offsets, blocks);

    const uint32_t group = first >> kNestedShift, groups = ((first + blocks - 1) >> kNestedShift) - group + 1;
    LocalTensor<uint8_t> loaded = Load(scales_in, nested_[static_cast<uint64_t>(group) * sizeof(float)],
                                       groups * static_cast<uint32_t>(sizeof(float)));
    OffsetsOfItems(offsets, first - (group << kNestedShift), kNestedShift, blocks);
    Look(of_scales, loaded.ReinterpretCast<float>(), offsets, blocks);
    scales_in.FreeTensor(loaded);
    PipeBarrier<PIPE_V>();
    Mul(scales, scales, of_scales, static_cast<int32_t>(blocks));
    PipeBarrier<PIPE_V>();
    Adds(scales, scales, offset_, static_cast<int32_t>(blocks));
  }

  TPipe pipe;
  InQueue in, scales_in;
  OutQueue out;
  TBuf<> table_, low_halves_, swapped_, halves_, offsets_, fractions_, weight_scales_, block_scales_, of_scales_;
  GlobalTensor<uint8_t> codes_, scales_, nested_;
  GlobalTensor<T> to_;
  PackedNumbers n_;
  uint32_t row_bytes_ = 0;
  float offset_ = 0;
};

}  // namespace
}  // namespace trireme_kernels

// To fp32 or bf16.
extern "C" __global__ __aicore__ void dequantise(GM_ADDR codes, GM_ADDR scales, GM_ADDR nested_scales, GM_ADDR tables,
                                                 GM_ADDR to, uint32_t type, uint32_t nested, uint32_t rows,
                                                 uint32_t columns, uint32_t stride, uint32_t start, uint32_t row_step,
                                                 uint32_t row_blocks, uint32_t block_shift, uint32_t tile) {
  const trireme_kernels::PackedNumbers numbers{nested,   rows,       columns,     stride, start,
                                               row_step, row_blocks, block_shift, tile};
  if (type == trireme_kernels::kFloat) {
    trireme_kernels::Dequantise<float>().Run(codes, scales, nested_scales, tables, to, numbers);
  } else {
    trireme_kernels::Dequantise<bfloat16_t>().Run(codes, scales, nested_scales, tables, to, numbers);
  }
}
