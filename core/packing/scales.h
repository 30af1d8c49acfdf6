// The scales of a packed matrix's blocks: the largest magnitude of each, in fp32 or packed themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/packed_storage.h"

namespace trireme {

inline constexpr int64_t kScalesPerBlock = 256;  // nested: how many of them share a scale

// Appends those of consecutive blocks; `values` begins with a block and ends with one, or with the matrix.
void AppendBlockScales(std::span<const float> values, int64_t block, std::vector<float>& scales);

// Scales in 8 bits: offset + map[code] · (scale of 256 of them).
struct NestedScales {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  float offset = 0;
};

// offset: the mean of all scales of the matrix.
NestedScales NestScales(std::span<const float> scales, float offset);

// The scale whose code stands for `value`, among those of the scale `of_block`.
float NestedScale(float value, float of_block, float offset);

}  // namespace trireme
