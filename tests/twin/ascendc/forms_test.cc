// The many forms of one function: operators over whole tensors, masks as numbers and as bits for every
// family, comparison registers, shapes, and the numbers that become half.
#include "tests/twin/ascendc/on_core.h"

namespace ascendc_test {
namespace {

TEST(Operators, ComputeWholeTensors) {
  OnCore core;
  const std::vector<float> a = Random<float>(64, 1), b(64, 4.0f);
  const LocalTensor<float> x = core.Tensor(a), y = core.Tensor(b);
  LocalTensor<float> dst = core.Empty<float>(64);
  const auto expect = [&](const std::function<float(float, float)>& wanted) {
    const std::vector<float> found = core.Values(dst, 64);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(found[i], wanted(a[i], b[i])) << i;
  };
  const uint64_t place = dst.GetPhyAddr();
  dst = x + y, expect(std::plus<float>());
  dst = x - y, expect(std::minus<float>());
  dst = x * y, expect(std::multiplies<float>());
  dst = x / y, expect(std::divides<float>());
  EXPECT_EQ(dst.GetPhyAddr(), place);  // computed into, not replaced
  const LocalTensor<int16_t> p = core.Tensor(std::vector<int16_t>(16, 12)),
                             q = core.Tensor(std::vector<int16_t>(16, 10));
  LocalTensor<int16_t> bits = core.Empty<int16_t>(16);
  bits = p & q;
  EXPECT_EQ(core.Values(bits, 16)[15], 8);
  bits = p | q;
  EXPECT_EQ(core.Values(bits, 16)[0], 14);
}

TEST(Operators, CompareWholeTensors) {
  OnCore core;
  const std::vector<float> a = Random<float>(64, 1), b = Random<float>(64, 2);
  const LocalTensor<float> x = core.Tensor(a), y = core.Tensor(b);
  LocalTensor<uint8_t> bits = core.Empty<uint8_t>(8);
  const auto expect = [&](const std::function<bool(float, float)>& holds) {
    const std::vector<uint8_t> found = core.Values(bits, 8);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(found[i / 8] >> (i % 8) & 1, holds(a[i], b[i])) << i;
  };
  bits = x < y, expect(std::less<float>());
  bits = x > y, expect(std::greater<float>());
  bits = x <= y, expect(std::less_equal<float>());
  bits = x >= y, expect(std::greater_equal<float>());
  bits = x == y, expect(std::equal_to<float>());
  bits = x != y, expect(std::not_equal_to<float>());
}

TEST(Tensor, KeepsTheAttachedShape) {
  OnCore core;
  LocalTensor<half> local = core.Empty<half>(64);
  const uint32_t sizes[] = {4, 16}, original[] = {4, 15};
  local.SetShapeInfo(ShapeInfo(2, sizes, 2, original, DataFormat::ND));
  EXPECT_EQ(local.GetShapeInfo().shape[1], 16u);
  EXPECT_EQ(local.GetShapeInfo().originalShape[1], 15u);
  EXPECT_EQ(GetShapeSize(local.GetShapeInfo()), 64);
  local.SetUserTag(5);
  EXPECT_EQ(local.GetUserTag(), 5);
  EXPECT_EQ(local.GetLength(), 128u);
  LocalTensor<half> part;
  part.SetAddrWithOffset(local, 16);
  EXPECT_EQ(part.GetPhyAddr(), local.GetPhyAddr(16));
  local.SetBufferLen(10);
  EXPECT_EQ(local.GetSize(), 10u);
  local(3) = half(2.5f);
  EXPECT_EQ(static_cast<float>(local.GetValue(3)), 2.5f);
  std::vector<float> memory(4, 1.0f);
  GlobalTensor<float> global = Global(memory);
  global.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
  global(2) = 7.0f;
  EXPECT_EQ(memory[2], 7.0f);
}

TEST(Types, NumbersOfAllKindsBecomeHalf) {
  EXPECT_EQ(static_cast<float>(half(uint32_t{7})), 7.0f);
  EXPECT_EQ(static_cast<float>(half(int64_t{-7})), -7.0f);
  EXPECT_EQ(static_cast<float>(half(0.5)), 0.5f);
  EXPECT_EQ(static_cast<float>(bfloat16_t(0.5)), 0.5f);
  EXPECT_EQ(static_cast<float>(bfloat16_t(size_t{9})), 9.0f);
  EXPECT_EQ(ToFloat(ToBfloat16(3.0f)), 3.0f);
}

// One function of each family, with a bit mask: lanes 0, 2 and 33 of two repeats. `wanted` maps a lane number
// to its result.
class Bits : public ::testing::Test {
 protected:
  uint64_t bits_[2] = {uint64_t{5} | uint64_t{1} << 33, 0};
  static bool Active(int i) { return i % 64 == 0 || i % 64 == 2 || i % 64 == 33; }
  void Expect(const LocalTensor<float>& dst, const std::function<float(int)>& wanted) {
    const std::vector<float> found = core_.Values(dst, 128);
    for (int i = 0; i < 128; ++i) ASSERT_EQ(found[i], Active(i) ? wanted(i) : -9.0f) << i;
  }
  LocalTensor<float> Fresh() { return core_.Tensor(std::vector<float>(128, -9.0f)); }
  OnCore core_;
  const std::vector<float> a_ = Random<float>(128, 1), b_ = Random<float>(128, 2);
  const LocalTensor<float> x_ = core_.Tensor(a_), y_ = core_.Tensor(b_);
};

TEST_F(Bits, InEveryElementwiseFamily) {
  LocalTensor<float> dst = Fresh();
  Mul(dst, x_, y_, bits_, 2, {1, 1, 1, 8, 8, 8}), Expect(dst, [&](int i) { return a_[i] * b_[i]; });
  Muls(dst = Fresh(), x_, 3.0f, bits_, 2, {1, 1, 8, 8}), Expect(dst, [&](int i) { return a_[i] * 3; });
  Abs(dst = Fresh(), x_, bits_, 2, {1, 1, 8, 8}), Expect(dst, [&](int i) { return std::fabs(a_[i]); });
  Axpy(dst = Fresh(), x_, 2.0f, bits_, 2, {1, 1, 8, 8}), Expect(dst, [&](int i) { return a_[i] * 2 - 9; });
  Duplicate(dst = Fresh(), 6.0f, bits_, 2, 1, 8), Expect(dst, [](int) { return 6.0f; });
  Copy(dst = Fresh(), x_, bits_, 2, {1, 1, 8, 8}), Expect(dst, [&](int i) { return a_[i]; });
  CreateVecIndex(dst = Fresh(), 1.0f, bits_, 2, 1, 8), Expect(dst, [](int i) { return 1.0f + static_cast<float>(i); });
  const LocalTensor<int32_t> whole = core_.Tensor(std::vector<int32_t>(128, 5));
  Cast(dst = Fresh(), whole, RoundMode::CAST_NONE, bits_, 2, {1, 1, 8, 8}), Expect(dst, [](int) { return 5.0f; });
}

TEST_F(Bits, InGatherAndSelect) {
  std::vector<uint32_t> offsets(128);
  for (uint32_t i = 0; i < 128; ++i) offsets[i] = (127 - i) * 4;
  LocalTensor<float> dst = Fresh();
  Gather(dst, x_, core_.Tensor(offsets), 0, bits_, 2, 8), Expect(dst, [&](int i) { return a_[127 - i]; });
  dst = Fresh();
  Gather(dst, x_, core_.Tensor(offsets), 0, 3, 1, 8);
  EXPECT_EQ(core_.Values(dst, 4), (std::vector<float>{a_[127], a_[126], a_[125], -9.0f}));
  const LocalTensor<uint8_t> selected = core_.Tensor(std::vector<uint8_t>(16, 0x55));  // even lanes
  const auto even = [](int i) { return i % 2 == 0; };
  Select(dst = Fresh(), selected, x_, y_, SELMODE::VSEL_TENSOR_TENSOR_MODE, bits_, 2, {1, 1, 1, 8, 8, 8});
  Expect(dst, [&](int i) { return even(i) ? a_[i] : b_[i]; });
  Select(dst = Fresh(), selected, x_, 2.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, bits_, 2, {1, 1, 1, 8, 8, 8});
  Expect(dst, [&](int i) { return even(i) ? a_[i] : 2.0f; });
}

TEST_F(Bits, InReductions) {
  const auto sum = [&](int first, int last) {
    float total = 0;
    for (int i = first; i < last; ++i) total += Active(i) ? a_[i] : 0;
    return total;
  };
  const auto largest = [&](int first, int last) {
    float best = -kInfinity;
    for (int i = first; i < last; ++i) best = Active(i) ? std::max(best, a_[i]) : best;
    return best;
  };
  const LocalTensor<float> dst = Fresh();
  WholeReduceSum(dst, x_, bits_, 2, 1, 1, 8);
  EXPECT_EQ(core_.Values(dst, 2), (std::vector<float>{sum(0, 64), sum(64, 128)}));
  ReduceSum(dst, x_, dst, bits_, 2, 8);
  EXPECT_EQ(core_.Values(dst, 1)[0], sum(0, 64) + sum(64, 128));
  BlockReduceSum(dst, x_, 1, bits_, 1, 1, 8);
  EXPECT_EQ(core_.Values(dst, 5)[4], sum(32, 40));
  PairReduceSum(dst, x_, 1, bits_, 1, 1, 8);
  EXPECT_EQ(core_.Values(dst, 2)[1], sum(2, 4));
  WholeReduceMax(dst, x_, bits_, 2, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  EXPECT_EQ(core_.Values(dst, 2), (std::vector<float>{largest(0, 64), largest(64, 128)}));
  ReduceMax(dst, x_, dst, bits_, 2, 8, true);
  const float best = core_.Values(dst, 1)[0];
  EXPECT_EQ(best, largest(0, 128));
  const uint32_t at = core_.Values(dst.ReinterpretCast<uint32_t>(), 2)[1];
  EXPECT_TRUE(Active(static_cast<int>(at)));
  EXPECT_EQ(a_[at], best);
  ReduceMin(dst, x_, dst, 1, 2, 8, false);  // lanes 0 and 64
  EXPECT_EQ(core_.Values(dst, 1)[0], std::min(a_[0], a_[64]));
}

TEST(Compare, ByRepeatsAndByRegister) {
  OnCore core;
  const std::vector<float> a = Random<float>(128, 1), b = Random<float>(128, 2);
  const LocalTensor<float> x = core.Tensor(a), y = core.Tensor(b), dst = core.Empty<float>(128);
  const LocalTensor<uint8_t> bits = core.Empty<uint8_t>(32);
  const auto expect = [&](const std::function<bool(int)>& holds, int count) {
    const std::vector<uint8_t> found = core.Values(bits, static_cast<size_t>(count) / 8);
    for (int i = 0; i < count; ++i) ASSERT_EQ(found[i / 8] >> (i % 8) & 1, holds(i)) << i;
  };
  Compare(bits, x, y, CMPMODE::LT, 64, 2, {1, 1, 1, 8, 8, 8}), expect([&](int i) { return a[i] < b[i]; }, 128);
  CompareScalar(bits, x, 0.0f, CMPMODE::GE, 64, 2, {1, 1, 8, 8}), expect([&](int i) { return a[i] >= 0; }, 128);
  Compares(bits, x, 0.0f, CMPMODE::LT, 64, 2, {1, 1, 8, 8}), expect([&](int i) { return a[i] < 0; }, 128);
  Compare(x, y, CMPMODE::GT, 64, {1, 1, 1, 8, 8, 8});
  Select<float, SELMODE::VSEL_CMPMASK_SPR>(dst, x, y, 2, {1, 1, 1, 8, 8, 8});
  for (int i = 0; i < 128; ++i) ASSERT_EQ(core.Values(dst, 128)[i], a[i % 64] > b[i % 64] ? a[i] : b[i]) << i;
  GetCmpMask(bits), expect([&](int i) { return a[i] > b[i]; }, 64);
  SetCmpMask(core.Tensor(std::vector<uint8_t>(16, 0xff)));
  Select<float, SELMODE::VSEL_CMPMASK_SPR>(dst, x, y, 1, {1, 1, 1, 8, 8, 8});
  EXPECT_EQ(core.Values(dst, 64), std::vector<float>(a.begin(), a.begin() + 64));
}

TEST(Scalar, ShiftsRound) {
  OnCore core;
  const LocalTensor<int32_t> x = core.Tensor(std::vector<int32_t>{5, 6, -5, INT32_MAX}), dst = core.Empty<int32_t>(8);
  ShiftRight(dst, x, 2, 4, true);
  EXPECT_EQ(core.Values(dst, 4), (std::vector<int32_t>{1, 2, -1, 536870912}));
  ShiftRight(dst, x, 2, 3, 1, {1, 1, 8, 8}, true);
  EXPECT_EQ(core.Values(dst, 2)[1], 2);
}

TEST(Fill, IndicesAreExactWholeNumbers) {
  OnCore core;
  const LocalTensor<int32_t> index = core.Empty<int32_t>(8);
  CreateVecIndex(index, 1 << 24, 8u);
  EXPECT_EQ(core.Values(index, 2)[1], (1 << 24) + 1);
  const LocalTensor<int32_t> long_index = core.Tensor(std::vector<int32_t>(128, -1));
  CreateVecIndex(long_index, 0, 3, 2, 1, 8);  // three lanes of 64; the second repeat starts at 64
  EXPECT_EQ(core.Values(long_index, 128)[66], 66);
  EXPECT_EQ(core.Values(long_index, 128)[3], -1);
}

TEST(Cast, FourBitsByRepeats) {
  OnCore core;
  std::vector<half> x(128);
  for (int i = 0; i < 128; ++i) x[i] = half(i % 15 - 7);
  const LocalTensor<int4b_t> narrow = core.Tensor(std::vector<int8_t>(64)).ReinterpretCast<int4b_t>();
  const LocalTensor<half> wide = core.Tensor(std::vector<half>(128, half(99)));
  Cast(narrow, core.Tensor(x), RoundMode::CAST_RINT, 127, 1, {1, 1, 4, 8});  // the last lane stays 0
  Cast(wide, narrow, RoundMode::CAST_NONE, 128, 1, {1, 1, 8, 4});
  const std::vector<float> found = Floats(core.Values(wide, 128));
  for (int i = 0; i < 128; ++i) ASSERT_EQ(found[i], i == 127 ? 0.0f : static_cast<float>(x[i])) << i;
}

TEST(Gather, WholeBlocks) {
  OnCore core;
  const std::vector<float> x = Random<float>(128);
  const LocalTensor<float> dst = core.Empty<float>(64);
  Gatherb(dst, core.Tensor(x), core.Tensor(std::vector<uint32_t>{224, 192, 160, 128, 96, 64, 32, 0}), 1, {1, 8});
  for (int i = 0; i < 64; ++i) ASSERT_EQ(core.Values(dst, 64)[i], x[(7 - i / 8) * 8 + i % 8]) << i;
}

TEST(Transpose, ChannelsFirstAndLast) {
  OnCore core;
  const std::vector<half> x = Random<half>(2 * 3 * 16);  // 2 images of 3 channels of 4 × 4
  const LocalTensor<half> last = core.Empty<half>(96), first = core.Empty<half>(96);
  const LocalTensor<uint8_t> none;
  Transpose(last, core.Tensor(x), none, {2, 3, 4, 4, TransposeType::TRANSPOSE_NCHW2NHWC});
  const std::vector<half> found = core.Values(last, 96);
  for (int i = 0; i < 96; ++i) {
    const int image = i / 48, pixel = i % 48 / 3, channel = i % 3;
    ASSERT_EQ(found[i].bits, x[image * 48 + channel * 16 + pixel].bits) << i;
  }
  Transpose(first, last, none, {2, 3, 4, 4, TransposeType::TRANSPOSE_NHWC2NCHW});
  for (int i = 0; i < 96; ++i) ASSERT_EQ(core.Values(first, 96)[i].bits, x[i].bits) << i;
}

TEST(Queue, BindsInToOut) {  // straight through: MTE2 fills, MTE3 empties, no vector function in between
  OnCore core;
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 2, 64);
  std::vector<float> source = Random<float>(32), result(32);
  for (int i = 0; i < 4; ++i) {
    LocalTensor<float> tensor = queue.AllocTensor<float>();
    DataCopy(tensor, Global(source)[8 * i], 8);
    queue.EnQue(tensor);
    tensor = queue.DeQue<float>();
    DataCopy(Global(result)[8 * i], tensor, 8);
    queue.FreeTensor(tensor);
  }
  EXPECT_EQ(result, source);
}

TEST(Queue, FillsGivenTensors) {
  OnCore core;
  TPipe pipe;
  TQue<TPosition::VECIN, 0> queue;
  pipe.InitBuffer(queue, 1, 64);
  std::vector<float> source = Random<float>(16);
  LocalTensor<float> tensor;
  queue.AllocTensor(tensor);
  DataCopy(tensor, Global(source), 16);
  queue.EnQue(tensor);
  LocalTensor<float> taken;
  queue.DeQue(taken);
  EXPECT_EQ(taken.GetPhyAddr(), tensor.GetPhyAddr());
  Adds(taken, taken, 1.0f, 16);
  EXPECT_EQ(core.Values(taken, 16)[15], source[15] + 1);
  queue.FreeTensor(taken);
}

TEST(DataCopyPad, TheOlderForms) {
  OnCore core;
  std::vector<half> source = Random<half>(16), result(16, half(-1));
  const LocalTensor<half> local = core.Tensor(std::vector<half>(64));
  const uint64_t three = half(3).bits;
  DataCopyPad(local, Global(source), DataCopyParams{2, 6, 4, 0}, DataCopyPadParams{true, 1, 2, three});
  PipeBarrier<PIPE_ALL>();
  for (int line = 0; line < 2; ++line) {
    const std::vector<float> found = Floats(core.Values(local[line * 16], 6));
    for (int i = 0; i < 6; ++i) {
      const float wanted = i >= 1 && i < 4 ? static_cast<float>(source[line * 5 + i - 1]) : 3.0f;
      ASSERT_EQ(found[i], wanted) << line << " " << i;
    }
  }
  DataCopyPad(Global(result), local, DataCopyParams{2, 4, 0, 2});
  EXPECT_EQ(static_cast<float>(result[2]), -1.0f);
  EXPECT_EQ(result[3].bits, core.Values(local[16], 1)[0].bits);
}

TEST(Debug, PrintsTextAndTensors) {
  OnCore core;
  const LocalTensor<half> tensor = core.Tensor(std::vector<half>{half(1.5f), half(-2)});
  std::vector<int32_t> memory = {7, 8};
  testing::internal::CaptureStdout();
  PRINTF("%d of %s\n", 3, "four");
  DumpTensor(tensor, 5, 2);
  tik2::DumpTensor(Global(memory), 6, 2);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "3 of four\nblock 0, dump 5: 1.5 -2\nblock 0, dump 6: 7 8\n");
}

struct Tiling {
  uint32_t rows;
  float scale;
};

TEST(Tiling, IsReadFromGlobalMemory) {
  OnCore core;
  Tiling memory{7, 0.5f};
  GM_ADDR place = reinterpret_cast<GM_ADDR>(&memory);
  REGISTER_TILING_DEFAULT(Tiling);
  GET_TILING_DATA(first, place);
  GET_TILING_DATA_WITH_STRUCT(Tiling, second, place);
  GET_TILING_DATA_MEMBER(Tiling, scale, scale, place);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  EXPECT_EQ(first.rows + second.rows, 14u);
  EXPECT_EQ(scale, 0.5f);
  twin::ascendc::SetTilingKey(2);
  EXPECT_TRUE(TILING_KEY_IS(2));
  EXPECT_FALSE(TILING_KEY_IS(1));
  EXPECT_EQ(GetUserWorkspace(place), place);
  if ASCEND_IS_AIC
    ADD_FAILURE();
  EXPECT_TRUE(g_coreType == AscendC::AIV);
  const int64_t block_idx = 3;  // a kernel's own variable, shadowing the built-in
  EXPECT_EQ(block_idx + ::block_idx + block_num, 4);
}

}  // namespace
}  // namespace ascendc_test
