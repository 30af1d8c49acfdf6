// Test data with a closed form: element i of rank r is 1 if r + i is a multiple of 3, otherwise 0. The
// result of any collective is known without communicating, and sums are exact in every type up to 300
// ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/plan/dtype.h"

namespace trireme {

constexpr int PatternValue(int rank, size_t i) { return (static_cast<size_t>(rank) + i) % 3 == 0 ? 1 : 0; }

// The sum over ranks 0 to ranks - 1.
constexpr int PatternSum(int ranks, size_t i) {
  const int first = static_cast<int>((3 - i % 3) % 3);  // the first rank with a 1
  return first < ranks ? (ranks - 1 - first) / 3 + 1 : 0;
}

using PatternFormula = std::function<int(size_t)>;

// `count` elements of the type, in host memory.
std::vector<std::byte> MakePattern(DType dtype, size_t count, const PatternFormula& formula);

// Empty if `data` matches the formula; otherwise the first difference: "element 5 is 2, wanted 3".
std::string ComparePattern(DType dtype, const std::byte* data, size_t count, const PatternFormula& formula);

}  // namespace trireme
