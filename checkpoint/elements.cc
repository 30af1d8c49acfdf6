#include "checkpoint/elements.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

float ToFloat(float value) { return value; }
float ToFloat(double value) { return static_cast<float>(value); }
float ToFloat(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
float ToFloat(Fp16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t exponent = value.bits >> 10 & 0x1f, fraction = value.bits & 0x3ff;
  if (exponent == 0) {  // zero and subnormals
    const float small = std::ldexp(static_cast<float>(fraction), -24);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(small) | sign);
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

void FromFloat(float value, float& target) { target = value; }
void FromFloat(float value, double& target) { target = value; }
void FromFloat(float value, Bf16& target) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  target.bits = static_cast<uint16_t>(value != value ? 0x7fc0 : rounded >> 16);
}
void FromFloat(float value, Fp16& target) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  uint32_t half = 0;
  if (size > 0x7f800000) {
    half = 0x7e00;  // nan
  } else if (size >= 0x477ff000) {
    half = 0x7c00;  // rounds beyond the largest finite value
  } else if (size >= 0x38800000) {
    half = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
  } else {  // steps of 2^-24, ties to even by the default rounding mode
    half = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::bit_cast<float>(size), 24)));
  }
  target.bits = static_cast<uint16_t>(sign | half);
}

template <typename From, typename To>
void ConvertRun(const void* source, void* target, size_t count) {
  const auto* from = static_cast<const From*>(source);
  auto* to = static_cast<To*>(target);
  for (size_t i = 0; i < count; ++i) FromFloat(ToFloat(from[i]), to[i]);
}

using Run = void (*)(const void*, void*, size_t);

template <typename From>
Run RunTo(DType to) {
  switch (to) {
    case DType::kFp64:
      return ConvertRun<From, double>;
    case DType::kFp32:
      return ConvertRun<From, float>;
    case DType::kBf16:
      return ConvertRun<From, Bf16>;
    case DType::kFp16:
      return ConvertRun<From, Fp16>;
    default:
      return nullptr;
  }
}

Run FindRun(DType from, DType to) {
  switch (from) {
    case DType::kFp64:
      return to == DType::kFp32 ? ConvertRun<double, float> : nullptr;  // narrower would round twice
    case DType::kFp32:
      return RunTo<float>(to);
    case DType::kBf16:
      return RunTo<Bf16>(to);
    case DType::kFp16:
      return RunTo<Fp16>(to);
    default:
      return nullptr;
  }
}

// Elements whose exponent bits are all ones.
template <typename Bits>
int64_t CountFullExponents(const void* data, size_t count, Bits exponent) {
  const auto* bits = static_cast<const Bits*>(data);
  int64_t found = 0;
  for (size_t i = 0; i < count; ++i) found += (bits[i] & exponent) == exponent;
  return found;
}

// One element at a time: for boxes whose last dim is not contiguous, such as a transposed weight.
void CopyElements(int64_t count, const ConstPlace& source, int64_t source_stride, const Place& target,
                  int64_t target_stride) {
  for (int64_t i = 0; i < count; ++i) {
    Convert(source.dtype, Advance(source.data, source.dtype, i * source_stride), target.dtype,
            Advance(target.data, target.dtype, i * target_stride), 1);
  }
}

// Dims that are contiguous in both places are merged, so that runs are as long as possible.
void CopyDims(const Shape& extent, size_t dim, const ConstPlace& source, const Place& target) {
  Shape rest(extent.begin() + static_cast<std::ptrdiff_t>(dim), extent.end());
  Shape from(source.strides.begin() + static_cast<std::ptrdiff_t>(dim), source.strides.end());
  Shape to(target.strides.begin() + static_cast<std::ptrdiff_t>(dim), target.strides.end());
  if (IsContiguous(rest, from) && IsContiguous(rest, to)) {
    Convert(source.dtype, source.data, target.dtype, target.data, static_cast<size_t>(Elements(rest)));
    return;
  }
  if (dim + 1 == extent.size()) return CopyElements(extent[dim], source, from[0], target, to[0]);
  for (int64_t i = 0; i < extent[dim]; ++i) {
    CopyDims(extent, dim + 1,
             {source.dtype, Advance(source.data, source.dtype, i * source.strides[dim]), source.strides},
             {target.dtype, Advance(target.data, target.dtype, i * target.strides[dim]), target.strides});
  }
}

}  // namespace

bool CanConvert(DType from, DType to) { return from == to || FindRun(from, to) != nullptr; }

void Convert(DType from, const void* source, DType to, void* target, size_t count) {
  if (from == to) {
    if (count > 0) std::memcpy(target, source, count * static_cast<size_t>(ByteSize(from)));
    return;
  }
  const Run run = FindRun(from, to);
  if (run == nullptr) throw InputError("conversion from ", Name(from), " to ", Name(to), " is not supported");
  run(source, target, count);
}

int64_t CountNotFinite(DType dtype, const void* data, size_t count) {
  switch (dtype) {
    case DType::kFp64:
      return CountFullExponents<uint64_t>(data, count, 0x7ff0000000000000);
    case DType::kFp32:
      return CountFullExponents<uint32_t>(data, count, 0x7f800000);
    case DType::kBf16:
      return CountFullExponents<uint16_t>(data, count, 0x7f80);
    case DType::kFp16:
      return CountFullExponents<uint16_t>(data, count, 0x7c00);
    default:
      return 0;
  }
}

bool IsContiguous(const Shape& extent, const Shape& strides) {
  int64_t expected = 1;
  for (size_t dim = extent.size(); dim-- > 0;) {
    if (extent[dim] != 1 && strides[dim] != expected) return false;
    expected *= extent[dim];
  }
  return true;
}

void CopyBox(const Shape& extent, const ConstPlace& source, const Place& target) {
  if (Elements(extent) > 0) CopyDims(extent, 0, source, target);
}

}  // namespace trireme
