// The values that codes stand for, as bitsandbytes has them: fractions of a block's scale. Those of int8 are code /
// 127.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/packed_storage.h"

namespace trireme {

using CodeTable = std::array<float, 16>;

// Of int8 weights: what bitsandbytes multiplies by instead of dividing by 127.
inline constexpr float kInt8Fraction = 7.874015718698502e-3F;

// By code, of a kind of 4 bits.
const CodeTable& ValuesOfCodes(PackedStorage::Kind kind);

// Which code is nearest to a fraction between -1 and 1; of two as near the one with the lower value.
class NearestCode {
 public:
  explicit NearestCode(PackedStorage::Kind kind);
  uint8_t operator()(float fraction) const {
    int below = 0;
    for (const float middle : middles_) below += middle < fraction;
    return ascending_[static_cast<size_t>(below)];
  }

 private:
  std::array<float, 15> middles_;      // between neighbouring values
  std::array<uint8_t, 16> ascending_;  // codes by value
};

// The 256 values of 8 bits, ascending: more of them for small magnitudes, over seven decades. Without negative ones
// twice as many positive ones.
std::vector<float> DynamicMap(bool negative);

}  // namespace trireme
