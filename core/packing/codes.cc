#include "core/packing/codes.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// The quantiles of a normal distribution, scaled to end at -1 and 1, with an exact zero.
constexpr CodeTable kNormal = {-1.0F,
                               -0.6961928009986877F,
                               -0.5250730514526367F,
                               -0.39491748809814453F,
                               -0.28444138169288635F,
                               -0.18477343022823334F,
                               -0.09105003625154495F,
                               0.0F,
                               0.07958029955625534F,
                               0.16093020141124725F,
                               0.24611230194568634F,
                               0.33791524171829224F,
                               0.44070982933044434F,
                               0.5626170039176941F,
                               0.7229568362236023F,
                               1.0F};

// A sign, two bits of an exponent, one of a fraction; by 12, the largest of them.
constexpr CodeTable kFloating = {0.0F, 0.0625F / 12,  8.0F / 12,  1.0F,  4.0F / 12,  0.5F,  2.0F / 12,  0.25F,
                                 0.0F, -0.0625F / 12, -8.0F / 12, -1.0F, -4.0F / 12, -0.5F, -2.0F / 12, -0.25F};

// Zero has two codes: 0 for what is at or just below it, 8 for what is just above.
constexpr std::array<uint8_t, 16> kFloatingAscending = {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3};

// `count` + 1 points from 0.1 to 1, from both ends towards the middle, rounded once each.
std::vector<float> Points(int count) {
  const float step = (1.0F - 0.1F) / static_cast<float>(count);
  std::vector<float> points;
  for (int i = 0; i <= count; ++i) {
    const double from_first = static_cast<double>(0.1F) + static_cast<double>(step) * i;
    const double from_last = 1.0 - static_cast<double>(step) * (count - i);
    points.push_back(static_cast<float>(i < (count + 1) / 2 ? from_first : from_last));
  }
  return points;
}

}  // namespace

const CodeTable& ValuesOfCodes(PackedStorage::Kind kind) {
  return kind == PackedStorage::Kind::kNf4 ? kNormal : kFloating;
}

NearestCode::NearestCode(PackedStorage::Kind kind) {
  const CodeTable& values = ValuesOfCodes(kind);
  for (size_t i = 0; i < ascending_.size(); ++i) {
    ascending_[i] = kind == PackedStorage::Kind::kNf4 ? static_cast<uint8_t>(i) : kFloatingAscending[i];
  }
  for (size_t i = 0; i < middles_.size(); ++i) middles_[i] = (values[ascending_[i]] + values[ascending_[i + 1]]) / 2;
}

std::vector<float> DynamicMap(bool negative) {
  constexpr int kDecades = 7;
  std::vector<float> values = {0.0F, 1.0F};
  for (int decade = 0; decade < kDecades; ++decade) {
    const auto size = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
    const std::vector<float> points = Points(1 << (negative ? decade : decade + 1));
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      const float value = size * ((points[i] + points[i + 1]) / 2);
      values.push_back(value);
      if (negative) values.push_back(-value);
    }
  }
  std::ranges::sort(values);
  return values;
}

}  // namespace trireme
