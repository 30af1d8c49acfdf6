// The reduction kernels against fp64, for every type and reduction, odd sizes and unaligned buffers.
#include "twin/hccl/data_path/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "twin/hccl/data_path/float_bits.h"
#include "twin/hccl/data_path/operation.h"

namespace {

using twin::TypeBytes;

const HcclDataType kReducible[] = {HCCL_DATA_TYPE_INT8,  HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_INT32,
                                   HCCL_DATA_TYPE_INT64, HCCL_DATA_TYPE_FP16,  HCCL_DATA_TYPE_FP32,
                                   HCCL_DATA_TYPE_BFP16};
const HcclReduceOp kOps[] = {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN};

double Load(HcclDataType type, const std::byte* p) {
  const auto as = [p]<typename T>(T value) {
    std::memcpy(&value, p, sizeof(T));
    return value;
  };
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return as(int8_t{});
    case HCCL_DATA_TYPE_INT16:
      return as(int16_t{});
    case HCCL_DATA_TYPE_INT32:
      return as(int32_t{});
    case HCCL_DATA_TYPE_INT64:
      return static_cast<double>(as(int64_t{}));
    case HCCL_DATA_TYPE_FP32:
      return as(float{});
    case HCCL_DATA_TYPE_FP16:
      return twin::Fp16ToFloat(as(uint16_t{}));
    default:
      return twin::Bf16ToFloat(as(uint16_t{}));
  }
}

void Store(HcclDataType type, std::byte* p, double value) {
  const auto put = [p](auto v) { std::memcpy(p, &v, sizeof(v)); };
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return put(static_cast<int8_t>(value));
    case HCCL_DATA_TYPE_INT16:
      return put(static_cast<int16_t>(value));
    case HCCL_DATA_TYPE_INT32:
      return put(static_cast<int32_t>(value));
    case HCCL_DATA_TYPE_INT64:
      return put(static_cast<int64_t>(value));
    case HCCL_DATA_TYPE_FP32:
      return put(static_cast<float>(value));
    case HCCL_DATA_TYPE_FP16:
      return put(twin::FloatToFp16(static_cast<float>(value)));
    default:
      return put(twin::FloatToBf16(static_cast<float>(value)));
  }
}

double Expect(HcclReduceOp op, double a, double b) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      return a + b;
    case HCCL_REDUCE_PROD:
      return a * b;
    case HCCL_REDUCE_MAX:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

// How far a result may be from the exact one, relative to the sum of the magnitudes.
double Tolerance(HcclDataType type) {
  if (type == HCCL_DATA_TYPE_FP32) return 1e-6;
  if (type == HCCL_DATA_TYPE_FP16) return 1.0 / 2048;
  if (type == HCCL_DATA_TYPE_BFP16) return 1.0 / 256;
  return 0;
}

void CheckOne(HcclDataType type, HcclReduceOp op, size_t sources, size_t count, size_t misalign) {
  const size_t element = TypeBytes(type);
  std::mt19937 random(count * 31 + sources);
  const bool small = type == HCCL_DATA_TYPE_INT8 || op == HCCL_REDUCE_PROD;
  std::uniform_int_distribution<int> integers(small ? -1 : -100, small ? 1 : 100);
  std::uniform_real_distribution<double> reals(-2, 2);
  std::vector<std::vector<std::byte>> data(sources, std::vector<std::byte>(count * element + 8));
  for (auto& one : data)
    for (size_t i = 0; i < count; ++i)
      Store(type, one.data() + misalign + i * element, Tolerance(type) > 0 ? reals(random) : integers(random));
  std::vector<const void*> pointers;
  for (auto& one : data) pointers.push_back(one.data() + misalign);
  std::vector<std::byte> out(count * element + 16, std::byte{0x5a});
  twin::Reduce(type, op, out.data() + misalign, pointers.data(), sources, count);
  for (size_t i = 0; i < count; ++i) {
    double exact = Load(type, data[0].data() + misalign + i * element), scale = std::abs(exact);
    for (size_t s = 1; s < sources; ++s) {
      const double value = Load(type, data[s].data() + misalign + i * element);
      exact = Expect(op, exact, value);
      scale = op == HCCL_REDUCE_PROD ? std::abs(exact) : scale + std::abs(value);
    }
    const double got = Load(type, out.data() + misalign + i * element);
    const double smallest = type == HCCL_DATA_TYPE_FP16 ? 0x1p-25 : 0;  // half of fp16's smallest step
    ASSERT_NEAR(got, exact, Tolerance(type) * scale + smallest)
        << twin::TypeName(type) << " " << twin::ReductionName(op) << " element " << i << " of " << count;
  }
  ASSERT_EQ(out[misalign + count * element], std::byte{0x5a}) << "wrote past the end";
}

TEST(ReduceTest, EqualsTheDoublePrecisionResult) {
  for (const HcclDataType type : kReducible)
    for (const HcclReduceOp op : kOps) {
      if (!twin::ReductionSupported(type, op)) continue;
      for (const size_t sources : {1, 2, 3, 5, 8})
        for (const size_t count : {0, 1, 7, 255, 256, 257, 1031})
          for (const size_t misalign : {0, 1, 3}) CheckOne(type, op, sources, count, misalign);
    }
}

TEST(ReduceTest, KnowsWhatTheHardwareSupports) {
  EXPECT_FALSE(twin::ReductionSupported(HCCL_DATA_TYPE_INT16, HCCL_REDUCE_PROD));
  EXPECT_FALSE(twin::ReductionSupported(HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_PROD));
  EXPECT_TRUE(twin::ReductionSupported(HCCL_DATA_TYPE_FP16, HCCL_REDUCE_PROD));
  for (const HcclDataType type :
       {HCCL_DATA_TYPE_UINT8, HCCL_DATA_TYPE_UINT16, HCCL_DATA_TYPE_UINT32, HCCL_DATA_TYPE_UINT64, HCCL_DATA_TYPE_FP64})
    for (const HcclReduceOp op : kOps) EXPECT_FALSE(twin::ReductionSupported(type, op)) << twin::TypeName(type);
}

TEST(ReduceTest, WorksInPlaceOnAnySource) {
  for (const size_t target : {0, 1, 2}) {
    std::vector<std::vector<float>> data(3, std::vector<float>(300));
    for (size_t s = 0; s < 3; ++s)
      for (size_t i = 0; i < 300; ++i) data[s][i] = static_cast<float>(s * 1000 + i);
    const void* pointers[] = {data[0].data(), data[1].data(), data[2].data()};
    twin::Reduce(HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, data[target].data(), pointers, 3, 300);
    for (size_t i = 0; i < 300; ++i) ASSERT_EQ(data[target][i], static_cast<float>(3000 + 3 * i));
  }
}

// 256 + 1 is not a bf16; rounding after each step would give 256 for the sum of 256 and sixteen ones.
TEST(ReduceTest, AccumulatesHalfPrecisionInFp32AndRoundsOnce) {
  std::vector<std::vector<uint16_t>> data(17, std::vector<uint16_t>(5, twin::FloatToBf16(1)));
  data[0].assign(5, twin::FloatToBf16(256));
  std::vector<const void*> pointers;
  for (auto& one : data) pointers.push_back(one.data());
  std::vector<uint16_t> out(5);
  twin::Reduce(HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_SUM, out.data(), pointers.data(), 17, 5);
  for (const uint16_t bits : out) EXPECT_EQ(twin::Bf16ToFloat(bits), 272.0f);
}

TEST(ReduceTest, IntegersWrap) {
  const std::vector<int32_t> big(70, std::numeric_limits<int32_t>::max());
  const std::vector<int32_t> one(70, 1);
  const void* pointers[] = {big.data(), one.data()};
  std::vector<int32_t> out(70);
  twin::Reduce(HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, out.data(), pointers, 2, 70);
  for (const int32_t value : out) EXPECT_EQ(value, std::numeric_limits<int32_t>::min());
}

TEST(ReduceTest, MaxAndMinPropagateNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const HcclReduceOp op : {HCCL_REDUCE_MAX, HCCL_REDUCE_MIN, HCCL_REDUCE_SUM}) {
    for (size_t where = 0; where < 3; ++where) {
      std::vector<std::vector<float>> data(3, std::vector<float>(100, 1.0f));
      data[where].assign(100, nan);
      const void* pointers[] = {data[0].data(), data[1].data(), data[2].data()};
      std::vector<float> out(100, 0.0f);
      twin::Reduce(HCCL_DATA_TYPE_FP32, op, out.data(), pointers, 3, 100);
      for (const float value : out) ASSERT_TRUE(std::isnan(value)) << twin::ReductionName(op) << " source " << where;
    }
  }
}

// Every fp16 value survives conversion to fp32 and back, and every fp32 between two of them rounds to the
// nearer one.
TEST(FloatBitsTest, Fp16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const float a = twin::Fp16ToFloat(low);
    ASSERT_EQ(twin::FloatToFp16(a), low);
    ASSERT_EQ(twin::FloatToFp16(-a), low | 0x8000);
    const float b = bits + 1 == 0x7c00 ? 65536.0f : twin::Fp16ToFloat(high);
    const float middle = (a + b) / 2;
    ASSERT_EQ(twin::FloatToFp16(std::nextafter(middle, a)), low) << bits;
    ASSERT_EQ(twin::FloatToFp16(std::nextafter(middle, 1e9f)), high) << bits;
    ASSERT_EQ(twin::FloatToFp16(middle), bits % 2 == 0 ? low : high) << bits;
  }
  EXPECT_EQ(twin::FloatToFp16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(twin::FloatToFp16(1e30f), 0x7c00);
  EXPECT_TRUE(std::isnan(twin::Fp16ToFloat(twin::FloatToFp16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(twin::Fp16ToFloat(0xfc00)) && twin::Fp16ToFloat(0xfc00) < 0);
}

TEST(FloatBitsTest, Bf16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    ASSERT_EQ(twin::FloatToBf16(twin::Bf16ToFloat(low)), low);
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000u);
    ASSERT_EQ(twin::FloatToBf16(middle), bits % 2 == 0 ? low : low + 1) << bits;
    ASSERT_EQ(twin::FloatToBf16(std::bit_cast<float>((bits << 16) | 0x7fffu)), low) << bits;
  }
  EXPECT_TRUE(std::isnan(twin::Bf16ToFloat(twin::FloatToBf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
