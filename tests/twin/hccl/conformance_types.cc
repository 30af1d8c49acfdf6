// Types, reductions and 16-bit rounding for the conformance tests; see conformance_types.h.
#include "tests/twin/hccl/conformance_types.h"

#include <cmath>
#include <cstdlib>

namespace conformance {

const std::vector<TypeInfo>& AllTypes() {
  static const std::vector<TypeInfo> types = {
      {HCCL_DATA_TYPE_INT8, "int8", 1, true, true},       {HCCL_DATA_TYPE_INT16, "int16", 2, true, false},
      {HCCL_DATA_TYPE_INT32, "int32", 4, true, true},     {HCCL_DATA_TYPE_FP16, "fp16", 2, true, true},
      {HCCL_DATA_TYPE_FP32, "fp32", 4, true, true},       {HCCL_DATA_TYPE_INT64, "int64", 8, true, true},
      {HCCL_DATA_TYPE_UINT64, "uint64", 8, false, false}, {HCCL_DATA_TYPE_UINT8, "uint8", 1, false, false},
      {HCCL_DATA_TYPE_UINT16, "uint16", 2, false, false}, {HCCL_DATA_TYPE_UINT32, "uint32", 4, false, false},
      {HCCL_DATA_TYPE_FP64, "fp64", 8, false, false},     {HCCL_DATA_TYPE_BFP16, "bf16", 2, true, false},
  };
  return types;
}

const TypeInfo& Info(HcclDataType type) { return AllTypes().at(static_cast<size_t>(type)); }

const char* OpName(HcclReduceOp op) {
  static const char* const names[] = {"sum", "prod", "max", "min"};
  return names[op];
}

bool Reducible(HcclDataType type, HcclReduceOp op) {
  const TypeInfo& info = Info(type);
  return info.reducible && (op != HCCL_REDUCE_PROD || info.has_product);
}

int FractionBits(HcclDataType type) { return type == HCCL_DATA_TYPE_FP16 ? 10 : 7; }

namespace {

double DecodeSlowly(uint16_t code, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (code & 0x7fff) >> fraction_bits;
  const int fraction = code & ((1 << fraction_bits) - 1);
  const double sign = (code & 0x8000) ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

std::vector<double> AllCodes(int fraction_bits) {
  std::vector<double> values(1 << 16);
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = DecodeSlowly(static_cast<uint16_t>(code), fraction_bits);
  }
  return values;
}

}  // namespace

double DecodeHalf(uint16_t code, int fraction_bits) {
  static const std::vector<double> fp16 = AllCodes(10), bf16 = AllCodes(7);
  return fraction_bits == 10 ? fp16[code] : bf16[code];
}

uint16_t EncodeHalf(double value, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint16_t infinity = ((1 << exponent_bits) - 1) << fraction_bits;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return infinity | 1;
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  // One addition handles the implied leading bit, or its absence in a subnormal, and the carry of rounding
  // up.
  const auto steps = static_cast<int64_t>(std::nearbyint(std::ldexp(std::fabs(value), fraction_bits - exponent)));
  const int64_t code = (static_cast<int64_t>(exponent + bias - 1) << fraction_bits) + steps;
  return sign | static_cast<uint16_t>(std::min<int64_t>(code, infinity));
}

int UlpDistance(uint16_t a, uint16_t b) {
  const auto place = [](uint16_t code) { return (code & 0x8000) ? -(code & 0x7fff) : code & 0x7fff; };
  return std::abs(place(a) - place(b));
}

}  // namespace conformance
