#include "core/packing/scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "core/packing/codes.h"

namespace trireme {
namespace {

// A fraction is first rounded to one of 65536 between -1 and 1, and the code nearest to that is taken: so the library
// rounds that reads and writes these files.
constexpr int kFractions = 65536;
using CodeOfFraction = std::array<uint8_t, kFractions>;

std::unique_ptr<const CodeOfFraction> CodesOfFractions() {
  const std::vector<float> map = DynamicMap(/*negative=*/true);
  auto codes = std::make_unique<CodeOfFraction>();
  size_t code = 0;
  for (int i = 0; i < kFractions; ++i) {
    const float fraction = -1.0F + (2.0F * static_cast<float>(i)) / (kFractions - 1);
    while (code + 1 < map.size() && 0.5F * (map[code] + map[code + 1]) < fraction) ++code;
    (*codes)[static_cast<size_t>(i)] = static_cast<uint8_t>(code);
  }
  return codes;
}

uint8_t CodeOf(float fraction) {
  static const std::unique_ptr<const CodeOfFraction> codes = CodesOfFractions();
  const float half = (std::clamp(fraction, -1.0F, 1.0F) + 1.0F) * 0.5F;
  const auto place = static_cast<float>(static_cast<double>(half) * (kFractions - 1) + 0.5);  // rounded once
  return (*codes)[static_cast<size_t>(place)];
}

float LargestMagnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

}  // namespace

void AppendBlockScales(std::span<const float> values, int64_t block, std::vector<float>& scales) {
  for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(block)) {
    const size_t size = std::min(values.size() - begin, static_cast<size_t>(block));
    scales.push_back(LargestMagnitude(values.subspan(begin, size)));
  }
}

NestedScales NestScales(std::span<const float> scales, float offset) {
  NestedScales nested{.codes = {}, .scales = {}, .offset = offset};
  std::vector<float> differences(scales.begin(), scales.end());
  for (float& value : differences) value -= offset;
  for (size_t begin = 0; begin < differences.size(); begin += kScalesPerBlock) {
    const size_t size = std::min(differences.size() - begin, static_cast<size_t>(kScalesPerBlock));
    const std::span<const float> block = std::span(differences).subspan(begin, size);
    const float largest = LargestMagnitude(block);
    const float inverse = largest == 0 ? 0 : 1.0F / largest;
    nested.scales.push_back(largest);
    for (const float value : block) nested.codes.push_back(largest == 0 ? 0 : CodeOf(value * inverse));
  }
  return nested;
}

float NestedScale(float value, float of_block, float offset) {
  const float product = value * of_block;
  return product + offset;
}

}  // namespace trireme
