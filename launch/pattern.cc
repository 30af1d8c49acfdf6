#include "launch/pattern.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace trireme {
namespace {

// A small whole number as IEEE half: exact below 2048.
uint16_t HalfBits(int value) {
  if (value == 0) return 0;
  const int exponent = std::bit_width(static_cast<unsigned>(value)) - 1;
  return static_cast<uint16_t>(((exponent + 15) << 10) | (((value << 10) >> exponent) & 0x3ff));
}

// Every element's bits, in the low bytes; little-endian machines only, like all that CANN supports.
uint64_t Bits(DType dtype, int value) {
  switch (dtype) {
    case DType::kFp64:
      return std::bit_cast<uint64_t>(static_cast<double>(value));
    case DType::kFp32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::kFp16:
      return HalfBits(value);
    case DType::kBf16:
      return std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    case DType::kInt64:
    case DType::kInt32:
    case DType::kInt16:
    case DType::kInt8:
    case DType::kUint8:
      return static_cast<uint64_t>(value);
    case DType::kFp8E4M3:
    case DType::kBool:
      break;
  }
  throw InputError("no test pattern for ", Name(dtype), "; use fp32, bf16, fp16, fp64, int64, int32, int16, int8");
}

// The formula has few distinct values: their bits are computed once.
class BitsTable {
 public:
  explicit BitsTable(DType dtype) : dtype_(dtype) {}
  uint64_t operator()(int value) {
    while (static_cast<size_t>(value) >= bits_.size()) bits_.push_back(Bits(dtype_, static_cast<int>(bits_.size())));
    return bits_[value];
  }

 private:
  DType dtype_;
  std::vector<uint64_t> bits_;
};

}  // namespace

std::vector<std::byte> MakePattern(DType dtype, size_t count, const PatternFormula& formula) {
  static_assert(std::endian::native == std::endian::little);
  const auto width = static_cast<size_t>(ByteSize(dtype));
  std::vector<std::byte> data(count * width);
  BitsTable bits(dtype);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t element = bits(formula(i));
    std::memcpy(data.data() + i * width, &element, width);
  }
  return data;
}

std::string ComparePattern(DType dtype, const std::byte* data, size_t count, const PatternFormula& formula) {
  const auto width = static_cast<size_t>(ByteSize(dtype));
  BitsTable bits(dtype);
  for (size_t i = 0; i < count; ++i) {
    uint64_t found = 0;
    std::memcpy(&found, data + i * width, width);
    if (found == bits(formula(i))) continue;
    return Concat("element ", i, " of ", count, " has the bits 0x", std::hex, found, ", wanted those of ", std::dec,
                  formula(i), ", 0x", std::hex, bits(formula(i)));
  }
  return "";
}

}  // namespace trireme
