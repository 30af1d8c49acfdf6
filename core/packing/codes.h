// The values that codes of 4 and 8 bits stand for, as bitsandbytes has them: fractions of a block's scale.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/packed_storage.h"

namespace trireme {

using CodeTable = std::array<float, 16>;

// By code.
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
  std::array<float, 15> middles_;       // between neighbouring values
  std::array<uint8_t, 16> ascending_;   // codes by value
};

// The 256 values of 8 bits, ascending: more of them for small magnitudes, over seven decades. Without negative ones twice as
// many positive ones.
std::vector<float> DynamicMap(bool negative);

}  // namespace trireme
