// Types and copies: rounding to half, counts rounded down to 32 bytes, gaps, paddings, atomics, queues.
#include "tests/twin/ascendc/on_core.h"

namespace ascendc_test {
namespace {

TEST(Types, EveryHalfSurvivesConversionToFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    half value;
    value.bits = static_cast<uint16_t>(bits);
    const bool nan = (bits & 0x7fff) > 0x7c00;
    if (nan) {
      EXPECT_TRUE(std::isnan(static_cast<float>(value)));
    } else {
      EXPECT_EQ(half(static_cast<float>(value)).bits, bits);
      const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
      const double size = exponent == 31  ? HUGE_VAL
                          : exponent == 0 ? std::ldexp(fraction, -24)
                                          : std::ldexp(1024 + fraction, exponent - 25);
      EXPECT_EQ(static_cast<double>(static_cast<float>(value)), (bits >> 15 != 0 ? -size : size));
    }
  }
}

TEST(Types, HalfIsRoundedToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {  // between each pair of neighbours
    half low, high;
    low.bits = bits, high.bits = static_cast<uint16_t>(bits + 1);
    const float middle = (static_cast<float>(low) + static_cast<float>(high)) / 2;
    EXPECT_EQ(half(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(half(std::nextafter(middle, 0.0f)).bits, bits);
    EXPECT_EQ(half(std::nextafter(middle, 1e9f)).bits, bits + 1);
    EXPECT_EQ(half(-middle).bits, half(middle).bits | 0x8000);
  }
  EXPECT_EQ(half(65519.996f).bits, 0x7bff);
  EXPECT_EQ(half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(half(kInfinity).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(static_cast<float>(half(kNan))));
}

TEST(Types, Bfloat16IsRoundedToNearestEven) {
  EXPECT_EQ(bfloat16_t(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);
  EXPECT_EQ(bfloat16_t(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_EQ(bfloat16_t(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16_t(std::bit_cast<float>(0x7fffffffu)))));
}

TEST(DataCopy, CountIsRoundedDownTo32Bytes) {
  OnCore core;
  std::vector<float> source = Random<float>(20), result(20, -1.0f);
  const LocalTensor<float> local = core.Tensor(std::vector<float>(24, 7.0f));
  DataCopy(local, Global(source), 19);
  PipeBarrier<PIPE_ALL>();
  const std::vector<float> found = core.Values(local, 24);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(found[i], i < 16 ? source[i] : 7.0f);
  DataCopy(Global(result), local, 15);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(result[i], i < 8 ? source[i] : -1.0f);
}

TEST(DataCopy, BlocksAndGapsAreIn32Bytes) {
  OnCore core;
  std::vector<int32_t> source(64);
  for (int i = 0; i < 64; ++i) source[i] = i;
  const LocalTensor<int32_t> local = core.Tensor(std::vector<int32_t>(64, -1));
  DataCopy(local, Global(source), {2, 2, 1, 3});  // 2 blocks of 16 elements, gaps of 8 and 24
  PipeBarrier<PIPE_ALL>();
  const std::vector<int32_t> found = core.Values(local, 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(found[i], i < 16 ? i : (i >= 40 && i < 56 ? i - 16 : -1));
  const LocalTensor<int32_t> moved = core.Tensor(std::vector<int32_t>(16, -2));
  DataCopy(moved, local[40], 8u);
  EXPECT_EQ(core.Values(moved, 9)[0], 24);
  EXPECT_EQ(core.Values(moved, 9)[8], -2);
}

TEST(DataCopyPad, RaggedLinesRepeatTheirFirstElement) {
  OnCore core;
  std::vector<half> source = Random<half>(40);
  const LocalTensor<half> local = core.Tensor(std::vector<half>(64, half(9)));
  // Two lines of 5; 3 elements between them in the source, one block in the destination.
  DataCopyPad(local, Global(source), {2, 10, 6, 1, 0}, {false, 0, 0, half(0)});
  PipeBarrier<PIPE_ALL>();
  const std::vector<float> found = Floats(core.Values(local, 64));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(found[i], static_cast<float>(source[i < 5 ? i : 0]));
  for (int i = 16; i < 32; ++i) EXPECT_EQ(found[i], 9.0f);
  for (int i = 32; i < 48; ++i) EXPECT_EQ(found[i], static_cast<float>(source[8 + (i < 37 ? i - 32 : 0)]));
}

TEST(DataCopyPad, PadsBothSidesAndCopiesBack) {
  OnCore core;
  std::vector<float> source = Random<float>(8), result(12, -1.0f);
  const LocalTensor<float> local = core.Tensor(std::vector<float>(24));
  DataCopyPad(local, Global(source), {1, 20, 0, 0, 0}, {true, 1, 2, -3.0f});
  PipeBarrier<PIPE_ALL>();
  EXPECT_EQ(core.Values(local, 8),
            (std::vector<float>{-3.0f, source[0], source[1], source[2], source[3], source[4], -3.0f, -3.0f}));
  DataCopyPad(Global(result), local, {2, 12, 0, 4, 0});  // lines of 3 from 32-byte boundaries to gaps of one
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(local, Global(source), {0, 20, 0, 0, 0}, {true, 1, 2, 5.0f});  // no block: nothing happens
  DataCopyPad(local, Global(source), {1, 0, 0, 0, 0}, {true, 1, 2, 5.0f});
  EXPECT_EQ(core.Values(local, 1)[0], -3.0f);
  EXPECT_EQ(std::vector<float>(result.begin(), result.begin() + 4),
            (std::vector<float>{-3.0f, source[0], source[1], -1.0f}));
}

TEST(Atomics, AddMaxAndMinCombineWithTheTarget) {
  OnCore core;
  std::vector<float> sums(8, 2.0f);
  const LocalTensor<float> local = core.Tensor(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  SetAtomicAdd<float>();
  DataCopy(Global(sums), local, 8);
  EXPECT_EQ(sums[7], 10.0f);
  SetAtomicMax<float>();
  DataCopyPad(Global(sums), local, {1, 8, 0, 0, 0});
  EXPECT_EQ(sums[0], 3.0f);
  SetAtomicMin<float>();
  DataCopy(Global(sums), local, 8);
  EXPECT_EQ(sums[7], 8.0f);
  SetAtomicNone();
  DataCopy(Global(sums), local, 8);
  EXPECT_EQ(sums, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Queue, DequeuesInOrder) {
  OnCore core;
  TPipe pipe;
  TQue<QuePosition::VECIN, 2> queue;
  pipe.InitBuffer(queue, 3, 40);  // rounded up to 64 bytes
  std::vector<float> source = Random<float>(24);
  for (int i = 0; i < 3; ++i) {
    LocalTensor<float> tensor = queue.AllocTensor<float>();
    EXPECT_EQ(tensor.GetSize(), 16u);
    DataCopy(tensor, Global(source)[8 * i], 8);
    queue.EnQue(tensor);
  }
  EXPECT_EQ(queue.GetTensorCountInQue(), 3);
  EXPECT_FALSE(queue.HasIdleBuffer());
  for (int i = 0; i < 3; ++i) {
    LocalTensor<float> tensor = queue.DeQue<float>();
    SetFlag<HardEvent::MTE2_S>(0);
    WaitFlag<HardEvent::MTE2_S>(0);
    EXPECT_EQ(tensor.GetValue(0), source[8 * i]);
    queue.FreeTensor(tensor);
  }
  EXPECT_FALSE(queue.HasTensorInQue());
  EXPECT_THROW(queue.DeQue<float>(), std::runtime_error);
}

TEST(Tensor, CopiesShareTheSameBytes) {
  OnCore core;
  const LocalTensor<float> local = core.Tensor(std::vector<float>{1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f});
  EXPECT_EQ(local.ReinterpretCast<uint32_t>().GetValue(1), 0x40000000u);
  EXPECT_EQ(local[3].GetValue(1), 5.0f);
  EXPECT_EQ(local.ReinterpretCast<half>().GetSize(), 16u);
  EXPECT_EQ(local.GetPhyAddr(2), local.GetPhyAddr() + 8);
}

}  // namespace
}  // namespace ascendc_test
