#include "checkpoint/fp8_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {
namespace {

int64_t Fp8BlocksIn(int64_t size) { return (size + kFp8Block - 1) / kFp8Block; }

// Calls work(block, element) for each element of a matrix, block being the one that it is in.
template <typename Work>
void ForEachOfBlocks(int64_t rows, int64_t columns, const Work& work) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row / kFp8Block * Fp8BlocksIn(columns);
    for (int64_t column = 0; column < columns; ++column) {
      work(static_cast<size_t>(first + column / kFp8Block), static_cast<size_t>(row * columns + column));
    }
  }
}

}  // namespace

// The rounding is transformers': values are multiplied by 448 / largest, which torch computes through the inverse of
// the largest, and what is stored is the inverse of that.
Fp8Matrix PackFp8(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> factors(static_cast<size_t>(Fp8BlocksIn(rows) * Fp8BlocksIn(columns)), 0.0F);
  ForEachOfBlocks(rows, columns,
                  [&](size_t block, size_t i) { factors[block] = std::max(factors[block], std::fabs(values[i])); });
  Fp8Matrix matrix{.codes = std::vector<uint8_t>(values.size()), .scales = {}};
  for (float& factor : factors) {
    // Of tiny weights the factor would be infinite, and 0 times it no number.
    factor = factor > 0 ? std::min((1.0F / factor) * kFp8Largest, std::numeric_limits<float>::max()) : 1.0F;
    matrix.scales.push_back(1.0F / factor);
  }
  ForEachOfBlocks(rows, columns, [&](size_t block, size_t i) { matrix.codes[i] = Fp8Of(values[i] * factors[block]); });
  return matrix;
}

std::vector<float> Fp8Scales(const TensorView& scales, const Shape& matrix, const std::string& where) {
  if (matrix.size() != 2) throw InputError(where, ": is ", ShapeText(matrix), " in fp8; wanted a matrix");
  const Shape wanted = {Fp8BlocksIn(matrix[0]), Fp8BlocksIn(matrix[1])};
  const bool known = scales.dtype == DType::kFp32 || scales.dtype == DType::kBf16 || scales.dtype == DType::kFp16;
  if (scales.shape != wanted || !known) {
    throw InputError(where, ": its ", kFp8ScaleSuffix, " is ", ShapeText(scales.shape), " in ", Name(scales.dtype),
                     "; wanted ", ShapeText(wanted), " in fp32, bf16 or fp16, one for each block of 128 x 128");
  }
  std::vector<float> factors(static_cast<size_t>(Elements(wanted)));
  Convert(scales.dtype, scales.bytes.data(), DType::kFp32, factors.data(), factors.size());
  return factors;
}

std::vector<float> DecodeFp8(const TensorView& matrix, const std::vector<float>& scales) {
  const int64_t rows = matrix.shape.at(0), columns = matrix.shape.at(1);
  std::vector<float> values(static_cast<size_t>(rows * columns));
  const auto* codes = reinterpret_cast<const uint8_t*>(matrix.bytes.data());
  ForEachOfBlocks(rows, columns, [&](size_t block, size_t i) { values[i] = FromFp8(codes[i]) * scales[block]; });
  return values;
}

}  // namespace trireme
