#include "core/tensor/dtype.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr std::pair<DType, at::ScalarType> kPairs[] = {
    {DType::kFp64, at::kDouble},
    {DType::kFp32, at::kFloat},
    {DType::kFp16, at::kHalf},
    {DType::kBf16, at::kBFloat16},
    {DType::kFp8E4M3, at::kFloat8_e4m3fn},
    {DType::kInt64, at::kLong},
    {DType::kInt32, at::kInt},
    {DType::kInt16, at::kShort},
    {DType::kInt8, at::kChar},
    {DType::kUint8, at::kByte},
    {DType::kBool, at::kBool},
};

}  // namespace

at::ScalarType ToTorch(DType dtype) {
  for (const auto& [ours, torchs] : kPairs) {
    if (ours == dtype) return torchs;
  }
  TRIREME_CHECK(false) << "dtype " << Name(dtype) << " has no torch type";
  return at::kFloat;
}

DType FromTorch(at::ScalarType type) {
  for (const auto& [ours, torchs] : kPairs) {
    if (torchs == type) return ours;
  }
  TRIREME_CHECK(false) << "torch type " << c10::toString(type) << " has no DType";
  return DType::kFp32;
}

}  // namespace trireme
