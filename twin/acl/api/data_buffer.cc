// Data buffers (an address and a length), the sizes of data types, and half precision conversions.
#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "twin/acl/op_objects.h"
#include "twin/acl/runtime/error.h"

using twin::FailNull;

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return std::make_unique<aclDataBuffer>(aclDataBuffer{data, size}).release();
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  if (dataBuffer == nullptr) return FailNull(__func__, "dataBuffer");
  std::unique_ptr<const aclDataBuffer> owned(dataBuffer);
  return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  if (dataBuffer == nullptr) return FailNull(__func__, "dataBuffer");
  *dataBuffer = {data, size};
  return ACL_SUCCESS;
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  return dataBuffer == nullptr ? nullptr : dataBuffer->data;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  return static_cast<uint32_t>(aclGetDataBufferSizeV2(dataBuffer));
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) { return dataBuffer == nullptr ? 0 : dataBuffer->bytes; }

// Types smaller than a byte count as one byte, types without a fixed size as zero.
size_t aclDataTypeSize(aclDataType dataType) {
  switch (dataType) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT4:
    case ACL_UINT1:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_DOUBLE:
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    case ACL_STRING:
    case ACL_DT_UNDEFINED:
      break;
  }
  return 0;
}

float aclFloat16ToFloat(aclFloat16 value) {
  const uint32_t sign = (value & 0x8000u) << 16;
  const uint32_t exponent = (value >> 10) & 0x1Fu;
  const uint32_t fraction = value & 0x3FFu;
  uint32_t bits = 0;
  if (exponent == 0x1F) {
    bits = sign | 0x7F800000u | (fraction << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (fraction << 13);
  } else {
    // Subnormal: a multiple of 2^-24, exact in float.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    std::memcpy(&bits, &magnitude, sizeof bits);
    bits |= sign;
  }
  float result = 0;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

// Rounds to nearest, ties to even.
aclFloat16 aclFloatToFloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;   // NaN
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // rounds to infinity
  if (magnitude < 0x38800000u) {
    // Below the smallest normal half: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    float scaled = 0;
    std::memcpy(&scaled, &magnitude, sizeof scaled);
    scaled += 0.5f;
    uint32_t rounded = 0;
    std::memcpy(&rounded, &scaled, sizeof rounded);
    return sign | static_cast<uint16_t>(rounded - 0x3F000000u);
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23);
  return sign | static_cast<uint16_t>(rounded >> 13);
}
