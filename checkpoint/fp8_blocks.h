// Matrices in fp8 (e4m3) with a scale for each block of 128 x 128, as DeepSeek-V3 is published: `NAME` and
// `NAME_scale_inv`, which multiplies. The last block of a row or column may be smaller. No torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/packing/e4m3.h"

namespace trireme {

inline constexpr int64_t kFp8Block = 128;
inline constexpr char kFp8ScaleSuffix[] = "_scale_inv";

struct Fp8Matrix {
  std::vector<uint8_t> codes;
  std::vector<float> scales;  // [⌈rows / 128⌉, ⌈columns / 128⌉]
};

// values: [rows, columns]
Fp8Matrix PackFp8(const std::vector<float>& values, int64_t rows, int64_t columns);
// Of a matrix of this shape, in fp32, copied: a source may have one tensor in memory at a time. Files have them in
// fp32, bf16 or fp16; others are refused, and another shape. `where`: the tensor, for messages.
std::vector<float> Fp8Scales(const TensorView& scales, const Shape& matrix, const std::string& where);
// scales: those of Fp8Scales.
std::vector<float> DecodeFp8(const TensorView& matrix, const std::vector<float>& scales);

}  // namespace trireme
