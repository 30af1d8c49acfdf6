// HCCL's data types as the conformance tests see them: their sizes, which reductions each supports, and how a
// number is encoded in the 16-bit formats. Shares nothing with the twin's own conversions: rounding is done
// once, from fp64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hccl/hccl.h"

namespace conformance {

struct TypeInfo {
  HcclDataType type;
  const char* name;
  size_t bytes;
  bool reducible;
  bool has_product;
};

// All twelve, in enumeration order.
const std::vector<TypeInfo>& AllTypes();
const TypeInfo& Info(HcclDataType type);

inline constexpr HcclReduceOp kAllOps[] = {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN};
const char* OpName(HcclReduceOp op);

// What an Atlas A2 reduces: int8, int16, int32, int64, fp16, fp32, bf16; no prod for int16 and bf16.
bool Reducible(HcclDataType type, HcclReduceOp op);

// A 16-bit floating format: fp16 has 10 fraction bits, bf16 has 7.
double DecodeHalf(uint16_t code, int fraction_bits);
uint16_t EncodeHalf(double value, int fraction_bits);  // round to nearest even, directly from fp64
int FractionBits(HcclDataType type);                   // 10 or 7; only for the 16-bit floats

// Distance between two codes in representable numbers.
int UlpDistance(uint16_t a, uint16_t b);

}  // namespace conformance
